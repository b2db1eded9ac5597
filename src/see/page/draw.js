// ---- the page
let plan, plans = [], serialOfPlan = 0;
let view = {x0: 0, x1: 1, y0: 0, y1: 1}, home = view, axis = 'order';
let moment = 0, selected = -1, focus = -1, hover = null, column = {key: 'bytes', down: true};
let colour = {}, texture = {}, patterns = query.has('patterns') || matchMedia('(prefers-contrast: more)').matches;
let W = 0, H = 0, dpr = 1, box = {};
const base = $('base').getContext('2d'), stage = $('stage');
let over = $('over').getContext('2d');

function theme(name) {
  document.documentElement.dataset.theme = name;
  $('theme').textContent = name === 'dark' ? 'Light' : 'Dark';
  $('theme').setAttribute('aria-label', 'Use the ' + (name === 'dark' ? 'light' : 'dark') + ' theme');
  const css = getComputedStyle(document.documentElement), get = key => css.getPropertyValue('--' + key).trim();
  for (const key of ['card', 'well', 'ink', 'soft', 'faint', 'line', 'grid', 'accent', 'budget', 'sans', 'mono']) colour[key] = get(key);
  const all = [...Array(KINDS).keys()];
  colour.kind = all.map(k => get('c' + k));
  colour.kind[AGAIN] = colour.kind[4];
  colour.rgb = all.map(k => parseInt(get('c' + k).slice(1), 16));
  colour.on = colour.rgb.map(c => .299 * (c >> 16) + .587 * (c >> 8 & 255) + .114 * (c & 255) > 132 ? '#10141a' : '#fff');
  colour.on[AGAIN] = colour.on[4];
  textures();
}
/* Small tiles; the recomputed one (diagonals) is always used, the others only with Patterns on. */
function textures() {
  const tile = (draw, line) => {
    const t = document.createElement('canvas'), n = Math.round(8 * dpr);
    t.width = t.height = n;
    const g = t.getContext('2d');
    g.scale(n / 8, n / 8); g.strokeStyle = g.fillStyle = line; g.lineWidth = 1.2; g.beginPath(); draw(g); g.stroke();
    const p = base.createPattern(t, 'repeat');
    p.setTransform(new DOMMatrix().scale(8 / n));
    return p;
  };
  const white = 'rgb(255 255 255 / 62%)', black = 'rgb(0 0 0 / 38%)', tone = k => colour.on[k] === '#fff' ? white : black;
  const slant = g => { g.moveTo(-2, 10); g.lineTo(10, -2); g.moveTo(-2, 2); g.lineTo(2, -2); g.moveTo(6, 10); g.lineTo(10, 6); };
  texture = {[AGAIN]: tile(slant, 'rgb(255 255 255 / 70%)'), none: tile(slant, colour.line)};
  if (!patterns) return;
  texture[2] = tile(g => { g.arc(2, 2, .9, 0, 7); g.moveTo(6.9, 6); g.arc(6, 6, .9, 0, 7); g.fill(); }, tone(2));
  texture[3] = tile(g => { g.moveTo(4, 0); g.lineTo(4, 8); }, tone(3));
  texture[5] = tile(g => { g.moveTo(0, 4); g.lineTo(8, 4); }, tone(5));
  texture[6] = tile(g => { g.moveTo(0, 4); g.lineTo(8, 4); g.moveTo(4, 0); g.lineTo(4, 8); }, tone(6));
}
const pale = kind => focus >= 0 && (kind === AGAIN ? 4 : kind) !== focus;

// --- geometry
function layout() {
  dpr = printing ? 3 : window.devicePixelRatio || 1;
  W = stage.clientWidth; H = stage.clientHeight;
  for (const canvas of [$('base'), $('over')]) { canvas.width = Math.round(W * dpr); canvas.height = Math.round(H * dpr); }
  const left = W < 560 ? 60 : 80, right = W - (W < 560 ? 10 : 16), strip = 46;
  const top = 18, axisHeight = 52, room = H - top - axisHeight - strip - 26, upper = Math.round(room * .4);
  box = {left, right, width: right - left, top, upper: top + upper, map: top + upper + axisHeight, bottom: H - strip - 26, strip: H - strip - 2, end: H - 2};
  textures();
}
const X = () => plan[axis];
const px = x => box.left + (x - view.x0) / (view.x1 - view.x0) * box.width;
const py = y => box.bottom - (y - view.y0) / (view.y1 - view.y0) * (box.bottom - box.map);
const toX = p => view.x0 + (p - box.left) / box.width * (view.x1 - view.x0);
const toY = p => view.y0 + (box.bottom - p) / (box.bottom - box.map) * (view.y1 - view.y0);
const step = x => clamp(lower(X(), x + 1e-9, 0, plan.ops + 1) - 1, 0, plan.ops - 1);
const mid = s => (X()[s] + X()[s + 1]) / 2;

function reset() { home = {x0: 0, x1: X()[plan.ops], y0: 0, y1: Math.max(plan.arena, plan.budget - plan.runtime, 1) * 1.06}; view = {...home}; }
function bound(v) {
  const w = clamp(v.x1 - v.x0, home.x1 * 2 / plan.ops / (axis === 'time' ? 20 : 1), home.x1), h = clamp(v.y1 - v.y0, Math.min(4096, home.y1), home.y1);
  const x0 = clamp((v.x0 + v.x1 - w) / 2, 0, home.x1 - w), y0 = clamp((v.y0 + v.y1 - h) / 2, 0, home.y1 - h);
  return {x0, x1: x0 + w, y0, y1: y0 + h};
}
function zoomed(fx, fy, x, y) { return bound({x0: x - (x - view.x0) * fx, x1: x + (view.x1 - x) * fx, y0: y - (y - view.y0) * fy, y1: y + (view.y1 - y) * fy}); }
let moving = 0;
function glide(to) {  // keys and buttons: a short move that the eye can follow
  cancelAnimationFrame(moving);
  if (matchMedia('(prefers-reduced-motion: reduce)').matches) { view = to; paint(); return; }
  const from = {...view}, start = performance.now();
  const tick = now => {
    const t = clamp((now - start) / 160, 0, 1), e = t * (2 - t);
    for (const k in to) view[k] = from[k] + (to[k] - from[k]) * e;
    paint();
    if (t < 1) moving = requestAnimationFrame(tick);
  };
  moving = requestAnimationFrame(tick);
}

// --- drawing
let pending = 0, printing = false;
function paint() { if (!pending) pending = requestAnimationFrame(() => { pending = 0; draw(); }); }
function draw() {
  noteMotion();
  base.setTransform(dpr, 0, 0, dpr, 0, 0);
  if (!printing) base.clearRect(0, 0, W, H);
  drawUpper(); drawAxis(); drawMap(); drawStrip(); drawOver();
}
const sharp = v => Math.round(v * dpr) / dpr;
function rule(g, x0, y0, x1, y1, style, width = 1, dash = []) {
  g.strokeStyle = style; g.lineWidth = width; g.setLineDash(dash); g.beginPath(); g.moveTo(x0, y0); g.lineTo(x1, y1); g.stroke(); g.setLineDash([]);
}
function write(g, text, x, y, style, align = 'left', font = '12px ') { g.fillStyle = style; g.font = font + colour.sans; g.textAlign = align; g.textBaseline = 'middle'; g.fillText(text, x, y); }
function halo(g, text, x, y, style, align, font) {  // legible over anything
  g.font = (font || '12px ') + colour.sans; g.textAlign = align; g.textBaseline = 'middle'; g.lineWidth = 4; g.lineJoin = 'round'; g.strokeStyle = colour.card;
  g.strokeText(text, x, y); write(g, text, x, y, style, align, font);
}
/* Ticks at round numbers of one binary unit. */
function ticks(low, high, count) {
  const unit = high >= 2 ** 31 ? 2 ** 30 : high >= 2 ** 21 ? 2 ** 20 : high >= 2 ** 11 ? 2 ** 10 : 1, raw = (high - low) / unit / count;
  const ten = 10 ** Math.floor(Math.log10(raw)), by = [1, 2, 2.5, 5, 10].find(k => k * ten >= raw) * ten * unit, list = [];
  for (let k = Math.ceil(low / by); k * by <= high; k++) list.push(k * by);
  const digits = (String(+(by / unit).toPrecision(6)).split('.')[1] || '').length;
  return {list, text: v => v === 0 ? '0' : (v / unit).toFixed(digits) + ' ' + {1: 'B', 1024: 'KiB', 1048576: 'MiB', 1073741824: 'GiB'}[unit]};
}

/* One entry per op, or per pixel: there the op that needs most stands for its column.  The last two are kept. */
let memo = [];
function columnsOf(x0, x1, left, width) {
  const id = [x0, x1, left, width, axis, serialOfPlan].join(), known = memo.find(m => m.id === id);
  if (known) return known;
  const x = X(), a = step(x0), b = Math.min(plan.ops, step(x1) + 1), many = Math.round(width), at = [], who = [];
  if (b - a <= many * 1.5) for (let s = a; s < b; s++) { at.push(left + (x[s] - x0) / (x1 - x0) * width); who.push(s); }
  else for (let i = 0, s = a; i < many && s < b; i++) {
    const t = i + 1 < many ? Math.max(s + 1, lower(x, x0 + (i + 1) / many * (x1 - x0), s, b)) : b;
    at.push(left + i / many * width); who.push(plan.largest(s, t)); s = t;
  }
  at.push(left + (Math.min(x1, x[b]) - x0) / (x1 - x0) * width);
  memo = [...memo.slice(-1), {id, at, who}];
  return memo.at(-1);
}
function drawUpper() {
  const g = base, {left, right, top, upper} = box, high = plan.top * 1.09 || 1, y = v => upper - v / high * (upper - top);
  box.yOf = y;
  const {list, text} = ticks(0, high, W < 560 ? 4 : 5);
  for (const t of list) { rule(g, left, sharp(y(t)) + .5 / dpr, right, sharp(y(t)) + .5 / dpr, colour.grid); write(g, text(t), left - 8, y(t), colour.faint, 'right', '11.5px '); }
  g.save();
  g.beginPath(); g.rect(left, 0, box.width, upper); g.clip();
  if (inMotion) copyUpper(g, 0, upper);
  else {
    g.fillStyle = texture.none; g.fillRect(left, y(plan.peak), box.width, upper - y(plan.peak));
    const {at, who} = columnsOf(view.x0, view.x1, left, box.width);
    layers(g, at, who, y, upper);
    labels(g, at, who, y);
    measured(g, at, who, y);
  }
  const by = sharp(y(plan.budget || plan.peak));
  if (plan.budget) rule(g, left, by, right, by, colour.budget, 1.5, [6, 4]);
  const p = px(mid(plan.peak_step));
  if (p >= left && p <= right) {
    g.font = '650 12px ' + colour.sans;
    const end = p > (left + right) / 2, most = box.width / 2 - 150 + Math.abs(p - (left + right) / 2);
    const text = ['peak, in use ' + size(plan.total[plan.peak_step]), 'peak ' + size(plan.total[plan.peak_step]), 'peak'].find(t => g.measureText(t).width < most) || '';
    halo(g, text, end ? p - 9 : p + 9, by - 9, colour.ink, end ? 'right' : 'left', '650 12px ');
  }
  const side = p > (left + right) / 2;
  if (plan.budget) halo(g, 'budget ' + tidy(plan.budget), side ? left + 6 : right - 6, by - 9, colour.budget, side ? 'left' : 'right', '600 12px ');
  g.restore();
  rule(g, left, upper, right, upper, colour.line);
}
/* What is in use, stacked: from the top layer down, each over the last, so that there are no seams. */
function layers(g, at, who, y, upper) {
  const n = who.length, sum = new Float64Array(n);
  for (let i = 0; i < n; i++) sum[i] = plan.total[who[i]];
  for (let k = LAYERS.length - 1; k >= 0; k--) {
    const kind = LAYERS[k], live = plan.live[kind], path = new Path2D();
    let any = false, last = upper;
    path.moveTo(at[0], upper);
    for (let i = 0; i < n; i++) {  // equal neighbours make one edge
      const v = Math.round(y(sum[i]) * dpr) / dpr, own = live[who[i]];
      if (v !== last) { path.lineTo(at[i], last); path.lineTo(at[i], v); last = v; }
      if (own) { any = true; sum[i] -= own; }
    }
    if (!any) continue;
    path.lineTo(at[n], last); path.lineTo(at[n], upper);
    if (pale(kind)) { g.fillStyle = colour.card; g.fill(path); g.globalAlpha = .16; }
    g.fillStyle = colour.kind[kind]; g.fill(path);
    if (texture[kind]) { g.fillStyle = texture[kind]; g.fill(path); }
    g.globalAlpha = 1;
  }
}
/* Names where a layer is thick, so that colour is not the only cue. */
function labels(g, at, who, y) {
  const n = who.length, avoid = px(mid(plan.peak_step));
  g.font = '600 12px ' + colour.sans;
  for (const [index, kind] of LAYERS.entries()) {
    let best = 0, place = null;
    const wide = g.measureText(kind === AGAIN ? 'recomputed' : CATEGORY[kind]).width + 18;
    for (let i = 0; i < n; i += Math.max(1, Math.floor(n / 60))) {
      let thin = Infinity, j = i;
      for (; j < n && at[j] < at[i] + wide; j++) thin = Math.min(thin, plan.live[kind][who[j]]);
      if (at[Math.min(j, n)] < at[i] + wide || thin <= best || at[i] < avoid && avoid < at[i] + wide) continue;
      let lowEdge = 0, highEdge = Infinity;  // a level run that is inside the layer all along
      for (let t = i; t < j; t++) {
        let under = 0;
        for (let k = 0; k < index; k++) under += plan.live[LAYERS[k]][who[t]];
        lowEdge = Math.max(lowEdge, under); highEdge = Math.min(highEdge, under + plan.live[kind][who[t]]);
      }
      if (highEdge - lowEdge > best) { best = highEdge - lowEdge; place = [at[i] + wide / 2, (y(lowEdge) + y(highEdge)) / 2]; }
    }
    if (place && y(0) - y(best) > 14 && !pale(kind)) {
      const text = kind === AGAIN ? 'recomputed' : CATEGORY[kind];
      if (texture[kind]) { const w = g.measureText(text).width + 10; g.fillStyle = colour.kind[kind]; g.beginPath(); g.roundRect(place[0] - w / 2, place[1] - 9, w, 18, 4); g.fill(); }
      write(g, text, place[0], place[1], colour.on[kind], 'center', '600 12px ');
    }
  }
}
/* What was held, as seen from outside: a line over what was planned. */
function measured(g, at, who, y, named = true) {
  const held = plan.step.held_bytes, path = new Path2D();
  let any = false;
  who.forEach((s, i) => { if (!held[s]) return; const v = y(held[s]); if (any) path.lineTo(at[i], v); else path.moveTo(at[i], v); path.lineTo(at[i + 1], v); any = true; });
  if (!any) return;
  g.lineJoin = 'round';
  g.strokeStyle = colour.card; g.lineWidth = 4; g.stroke(path);
  g.strokeStyle = colour.ink; g.lineWidth = 1.5; g.stroke(path);
  if (named) halo(g, 'measured', box.left + 6, y(held[who.find(s => held[s])]) + 12, colour.ink, 'left', '600 11.5px ');
}
function axisMarks(g, at, who, y) {
  const c = plan.step;
  for (let i = 0; i < who.length && !plan.foreign(); i++) {
    const what = c.what[who[i]], w = Math.max(1, at[i + 1] - at[i]);
    if (c.again[who[i]]) { g.fillStyle = colour.kind[4]; g.fillRect(at[i], y + 16, w, 4); }
    if (what === 1 || what === 2) { g.fillStyle = colour.accent; g.fillRect(at[i], y, w, 4); }
  }
}
function drawAxis() {
  const g = base, {left, right, upper, map} = box, y = upper + 8;
  g.save(); g.beginPath(); g.rect(left, upper, box.width, map - upper); g.clip();
  /* a stretch per phase; in it, a mark per recomputed op and, above that, per copy */
  const x = X();
  for (const t of plan.stretches) {
    const a = px(x[t.from]), b = px(x[t.to]);
    if (b < left || a > right || a === b) continue;
    g.globalAlpha = [.14, .3, .5][t.phase]; g.fillStyle = colour.faint; g.fillRect(sharp(a), y, Math.max(1, sharp(b) - sharp(a) - 1), 20); g.globalAlpha = 1;
  }
  if (inMotion) copyUpper(g, y, y + 20);
  else { const {at, who} = columnsOf(view.x0, view.x1, left, box.width); axisMarks(g, at, who, y); }
  for (const t of plan.stretches) {
    const a = Math.max(left, px(x[t.from])), b = Math.min(right, px(x[t.to]));
    g.font = '600 11px ' + colour.sans;
    if (b - a > g.measureText(t.label).width + 12) write(g, t.label, (a + b) / 2, y + 9, colour.ink, 'center', '600 11px ');
  }
  g.restore();
  const range = view.x1 - view.x0, raw = range / (W < 560 ? 4 : 9), ten = 10 ** Math.floor(Math.log10(raw));
  const by = axis === 'order' ? Math.max(1, [1, 2, 5, 10].find(k => k * ten >= raw) * ten) : [1, 2, 5, 10].find(k => k * ten >= raw) * ten;
  for (let k = Math.ceil(view.x0 / by); k * by <= view.x1 + 1e-9; k++) {
    const x = px(k * by);
    rule(g, sharp(x), y + 22, sharp(x), y + 26, colour.faint);
    if (x < left + 16 && left > 60 || x > right - 14) continue;
    write(g, axis === 'order' ? whole(k * by) : k ? span(k * by) : '0', x, y + 34, colour.faint, 'center', '11.5px ');
  }
  write(g, axis === 'order' ? plan.foreign() ? 'event' : 'op' : 'time', left - 8, y + 34, colour.faint, 'right', '11.5px ');
}

/* Below: an image from the worker has every rectangle; where they are few, those above a pixel are drawn on top, with names. */
const FEW = 6000;
function drawMap() {
  const g = base, {left, right, map, bottom, width} = box, c = plan.column, x = X(), tall = bottom - map;
  g.fillStyle = colour.well; g.fillRect(left, map, width, tall);
  const {list, text} = ticks(view.y0, view.y1, 6);
  for (const t of list) write(g, text(t), left - 8, clamp(py(t), map + 6, bottom - 6), colour.faint, 'right', '11.5px ');
  const s0 = step(view.x0), s1 = step(view.x1) + 1, ranges = plan.ranges(s0, s1);
  let many = 0;
  for (const [, from, to] of ranges) many += to - from;
  g.save(); g.beginPath(); g.rect(left, map, width, tall); g.clip();
  const exact = copyMap(g);
  box.drawn = `All ${whole(plan.count)} buffers are counted in the picture, ${whole(many)} of them near this range; zoom in to see each.`;
  if (many <= FEW) {
    const kx = width / (view.x1 - view.x0), ky = tall / (view.y1 - view.y0), names = [], gaps = new Path2D();
    for (const [kind, from, to] of ranges) {
      g.fillStyle = colour.kind[kind]; g.globalAlpha = pale(kind) ? .13 : 1;
      const marks = texture[kind] ? new Path2D() : null;
      for (let i = from; i < to; i++) {
        if (c.death[i] <= s0) continue;
        const y1 = bottom - (c.offset[i] - view.y0) * ky, y0 = y1 - c.bytes[i] * ky;
        if (y1 < map || y0 > bottom) continue;
        const a = Math.max(left - 9, left + (x[c.birth[i]] - view.x0) * kx), b = Math.min(right + 9, left + (x[c.death[i]] - view.x0) * kx);
        /* whole device pixels, a hairline between neighbours */
        if ((b - a) * dpr < 1 || (y1 - y0) * dpr < 1) { if (!exact) g.fillRect(a, y0, b - a, y1 - y0); continue; }  // below a pixel: the image counts these
        const l = Math.round(a * dpr), r = Math.max(l + 1, Math.round(b * dpr)), t = Math.round(y0 * dpr), d = Math.max(t + 1, Math.round(y1 * dpr));
        const w = (r - l) / dpr, h = (d - t) / dpr, one = 1 / dpr;
        g.fillRect(l / dpr, t / dpr, w, h);
        if (r - l > 4) gaps.rect((r - 1) / dpr, t / dpr, one, h);
        if (d - t > 4) gaps.rect(l / dpr, (d - 1) / dpr, w, one);
        if (marks && w > 2 && h > 2) marks.rect(l / dpr, t / dpr, w, h);
        if (w > 58 && h > 13 && !pale(kind)) names.push(i, Math.max(l / dpr, left), t / dpr, Math.min(w, right - l / dpr, l / dpr + w - left), h, kind);
      }
      if (marks) { g.fillStyle = texture[kind]; g.fill(marks); }
    }
    g.globalAlpha = 1;
    g.fillStyle = colour.well; g.fill(gaps);
    g.font = '11px ' + colour.mono; g.textBaseline = 'middle'; g.textAlign = 'left';
    const advance = g.measureText('0').width;
    for (let k = 0; k < names.length; k += 6) {
      const [i, l, t, w, h, kind] = names.slice(k, k + 6), fit = Math.floor((w - 10) / advance);
      let name = plan.text(c.name[i]);
      if (name.length > fit) name = fit > 4 ? name.slice(0, fit - 1) + '…' : '';
      const yy = Math.min(t + h / 2, Math.max(t + 9, clamp(t + h / 2, map + 9, bottom - 9)));
      if (texture[kind] && name) { g.fillStyle = colour.kind[kind]; g.fillRect(l + 3, yy - 7, name.length * advance + 5, 14); }
      g.fillStyle = colour.on[kind]; g.fillText(name, l + 5, yy + .5);
    }
    box.drawn = `All ${whole(plan.count)} buffers and ${whole(plan.ops)} ${plan.foreign() ? 'events' : 'ops'} are drawn.`;
  }
  const limit = py(plan.budget - plan.runtime);
  if (plan.budget && limit > map && limit < bottom) {
    rule(g, left, sharp(limit), right, sharp(limit), colour.budget, 1.5, [6, 4]);
    if (limit + 20 < bottom) halo(g, 'budget less runtime', left + 6, Math.max(limit - 9, map + 8), colour.budget, 'left', '11.5px ');
  }
  g.restore();
  g.save(); g.translate(12, (map + bottom) / 2); g.rotate(-Math.PI / 2); if (W >= 560) write(g, 'address', 0, 0, colour.faint, 'center', '11.5px '); g.restore();
  if (!inMotion && $('drawn').textContent !== box.drawn) $('drawn').textContent = box.drawn;  // at rest: a changed text lays out the whole page, which takes longer than a frame
}
/* The strip shows the whole step and which part of it is in view. */
let stripPicture = {};
const stripX = x => box.left + x / home.x1 * box.width;
function drawStrip() {
  const g = base, {left, right, width, strip, end} = box, tall = end - strip;
  g.fillStyle = colour.well; g.fillRect(left, strip, width, tall);
  const key = [styleKey(), width, tall, dpr].join();
  if (stripPicture.key !== key) {
    const canvas = stripPicture.canvas || document.createElement('canvas');
    canvas.width = Math.max(1, Math.round(width * dpr)); canvas.height = Math.max(1, Math.round(tall * dpr));
    const p = canvas.getContext('2d'), {at, who} = columnsOf(0, home.x1, 0, width), path = new Path2D();
    p.setTransform(dpr, 0, 0, dpr, 0, 0);
    path.moveTo(0, tall);
    who.forEach((s, i) => { const v = tall - plan.total[s] / (plan.peak || 1) * (tall - 6); path.lineTo(at[i], v); path.lineTo(at[i + 1], v); });
    path.lineTo(width, tall);
    p.fillStyle = colour.faint; p.globalAlpha = .38; p.fill(path);
    stripPicture = {key, canvas};
  }
  g.drawImage(stripPicture.canvas, left, strip, width, tall);
  const a = stripX(view.x0), b = stripX(view.x1);
  g.fillStyle = colour.card; g.globalAlpha = .72; g.fillRect(left, strip, a - left, end - strip); g.fillRect(b, strip, right - b, end - strip); g.globalAlpha = 1;
  g.strokeStyle = colour.faint; g.lineWidth = 1; g.strokeRect(sharp(a) + .5, strip + .5, Math.max(2, sharp(b) - sharp(a) - 1), end - strip - 1);
  for (const x of [a, b]) { g.fillStyle = colour.card; g.strokeStyle = colour.soft; g.beginPath(); g.roundRect(clamp(x, left, right) - 4, (strip + end) / 2 - 9, 8, 18, 3); g.fill(); g.stroke(); rule(g, clamp(x, left, right), (strip + end) / 2 - 4, clamp(x, left, right), (strip + end) / 2 + 4, colour.soft); }
  write(g, 'range', left - 8, (strip + end) / 2, colour.faint, 'right', '11.5px ');
}

/* The layer on top: moment, pointer, the chosen buffer's lifetime. */
function drawOver() {
  const g = over, {left, right, top, upper, map, bottom, strip, end} = box, c = plan.column, x = X();
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  if (!printing) g.clearRect(0, 0, W, H);
  g.save(); g.beginPath(); g.rect(left - 1, 0, box.width + 2, bottom); g.clip();
  if (selected >= 0) {
    const a = px(x[c.birth[selected]]), b = px(x[c.death[selected]]), y0 = py(c.offset[selected] + c.bytes[selected]), y1 = py(c.offset[selected]);
    g.fillStyle = colour.accent; g.globalAlpha = .12; g.fillRect(a, top, Math.max(1, b - a), upper - top); g.globalAlpha = 1;
    rule(g, a, top, a, bottom, colour.accent, 1, [3, 3]); rule(g, b, top, b, bottom, colour.accent, 1, [3, 3]);
    /* other lives of the same value: let go, then recomputed */
    let last = null;
    for (const i of lives) {
      const l = px(x[c.birth[i]]), r = px(x[c.death[i]]), m = (py(c.offset[i]) + py(c.offset[i] + c.bytes[i])) / 2;
      if (i !== selected) outline(g, i, [4, 3]);
      if (last) { g.strokeStyle = colour.card; g.lineWidth = 4; g.beginPath(); g.moveTo(last[0], last[1]); g.lineTo(l, m); g.stroke(); rule(g, last[0], last[1], l, m, colour.ink, 1.5, [4, 3]); g.fillStyle = colour.ink; g.beginPath(); g.arc(l, m, 3, 0, 7); g.fill(); }
      last = [r, m];
    }
    outline(g, selected, []);
  }
  const at = px(mid(moment));
  const start = box.yOf(plan.top);
  rule(g, at, start, at, upper, colour.card, 4); rule(g, at, map, at, bottom, colour.card, 4);
  rule(g, at, start, at, upper, colour.ink, 1.5); rule(g, at, map, at, bottom, colour.ink, 1.5);
  g.fillStyle = colour.ink; g.beginPath(); g.moveTo(at - 5, map - 1); g.lineTo(at + 5, map - 1); g.lineTo(at, map + 5); g.fill();
  const peak = px(mid(plan.peak_step));
  g.fillStyle = colour.ink; g.strokeStyle = colour.card; g.lineWidth = 2; g.beginPath(); g.arc(peak, box.yOf(plan.total[plan.peak_step]), 5, 0, 7); g.fill(); g.stroke();
  if (hover && hover.zone !== 'strip') {
    rule(g, hover.x, top, hover.x, bottom, colour.soft, 1, [2, 3]);
    if (hover.buffer >= 0 && hover.buffer !== selected) outline(g, hover.buffer, []);
  }
  g.restore();
  const sx = clamp(stripX(mid(moment)), left, right);
  rule(g, sx, strip, sx, end, colour.ink, 1.5);
}
function outline(g, i, dash) {
  const c = plan.column, x = X(), a = px(x[c.birth[i]]), b = px(x[c.death[i]]), y0 = py(c.offset[i] + c.bytes[i]), y1 = py(c.offset[i]);
  if (y1 < box.map || y0 > box.bottom) return;
  g.save(); g.beginPath(); g.rect(box.left, box.map, box.width, box.bottom - box.map); g.clip();
  for (const [style, width] of [[colour.card, 4], [colour.ink, 2]]) { g.strokeStyle = style; g.lineWidth = width; g.setLineDash(width === 2 ? dash : []); g.strokeRect(a, y0, Math.max(2, b - a - .5), Math.max(2, y1 - y0 - .5)); }
  g.restore();
}

