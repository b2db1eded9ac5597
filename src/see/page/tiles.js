// ---- tiles
/* What moves is copied, not drawn.  Both charts are cut into columns of TILE device pixels, counted from the start of the
   axis, at one pitch (units per pixel).  While the view only moves, a frame copies tiles at whole pixels, which is a copy of
   memory; scaling them costs ten times as much without a GPU.  While it zooms, tiles of the nearest pitch are stretched
   without smoothing; when it rests, all is drawn as it is.  Tiles of the upper chart are drawn here when a frame needs
   them; those of the map come from the worker, one at a time, nearest to the middle first, then a margin, then the whole.
   Both stores forget what was not used for longest when they pass their bytes, but nothing of the frame on show. */
const TILE = 256, NEAR = 1.6;
class Store {
  constructor(most) { this.most = most; this.clear(); }
  clear() { this.sets = []; this.held = this.now = this.frame = 0; }
  /* The set of this style and pitch, rows of `tall` pixels. */
  find(style, ux, uy, tall) { return this.sets.find(s => s.style === style && s.tall === tall && same(s.ux, ux) && same(s.uy, uy)); }
  set(style, ux, uy, tall) {
    let s = this.find(style, ux, uy, tall);
    if (!s) this.sets.push(s = {style, ux, uy, tall, tiles: new Map()});
    return s;
  }
  drop(set, t) { set.tiles.delete(t.k + ',' + t.j); this.held -= t.bytes; if (t.picture.close) t.picture.close(); }
  put(set, k, j, picture) {
    const known = set.tiles.get(k + ',' + j);
    if (known) this.drop(set, known);
    set.tiles.set(k + ',' + j, {picture, k, j, used: ++this.now, bytes: 4 * TILE * set.tall});
    this.held += 4 * TILE * set.tall;
    while (this.held > this.most) {
      let old = null, of = null;
      for (const s of this.sets) for (const t of s.tiles.values()) if (t.used <= this.frame && !(s.whole && s.style === set.style) && (!old || t.used < old.used)) { old = t; of = s; }
      if (!old) break;
      this.drop(of, old);
    }
    this.sets = this.sets.filter(s => s.tiles.size);
  }
  get(set, k, j) { const t = set.tiles.get(k + ',' + j); if (t) t.used = ++this.now; return t && t.picture; }
}
const same = (a, b) => Math.abs(a - b) <= 1e-9 * b;
const uppers = new Store(24 << 20), maps = new Store(64 << 20);

/* Columns and rows of a set that lie in v, or half a pixel beside it: places are rounded. */
function cells(s, v) {
  const last = x => Math.ceil(x - 1e-6) - 1, wide = TILE * s.ux, high = s.tall * s.uy, px = .5 / TILE, py = .5 / s.tall, list = [];
  const k1 = Math.min(last(v.x1 / wide + px), last(home.x1 / wide)), j1 = Math.min(last(v.y1 / high + py), last(home.y1 / high));
  for (let k = Math.max(0, Math.floor(v.x0 / wide - px)); k <= k1; k++)
    for (let j = Math.max(0, Math.floor(v.y0 / high - py)); j <= j1; j++) list.push([k, j]);
  return list;
}

// --- is anything moving?
let inMotion = false, steady = true, seen = null, changedAt = 0, rest = 0;
function noteMotion() {
  const now = performance.now(), changed = seen && Object.keys(view).some(k => view[k] !== seen[k]);
  steady = !changed || same(view.x1 - view.x0, seen.x1 - seen.x0) && same(view.y1 - view.y0, seen.y1 - seen.y0);
  if (changed) changedAt = now;
  inMotion = !printing && !!seen && (changed || now - changedAt < 120);
  seen = {...view};
  clearTimeout(rest);
  if (inMotion) rest = setTimeout(() => { changedAt = 0; paint(); }, 150);
}
const pitch = () => (view.x1 - view.x0) / (box.width * dpr);

// --- the upper chart
function drawUpperTile(s, k) {
  const canvas = document.createElement('canvas'), x0 = k * TILE * s.ux, x1 = Math.min(home.x1, x0 + TILE * s.ux), width = (x1 - x0) / s.ux / dpr;
  canvas.width = TILE; canvas.height = s.tall;
  const g = canvas.getContext('2d'), {at, who} = columnsOf(x0, x1, 0, width), y = box.yOf;
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  g.fillStyle = texture.none; g.fillRect(0, y(plan.peak), width, box.upper - y(plan.peak));
  layers(g, at, who, y, box.upper);
  measured(g, at, who, y, false);
  g.clearRect(0, box.upper, TILE, s.tall);
  axisMarks(g, at, who, box.upper + 8);
  uppers.put(s, k, 0, canvas);
  return canvas;
}
/* Rows y0 to y1 of the upper chart and of the marks under it. */
let upperSet = null;
function copyUpper(g, y0, y1) {
  const u = pitch(), tall = Math.round((box.upper + 28) * dpr), style = [styleKey(), patterns, box.width, H, dpr].join();
  if (!upperSet || upperSet.style !== style || !uppers.sets.includes(upperSet) || Math.max(u / upperSet.ux, upperSet.ux / u) > NEAR || steady && !same(u, upperSet.ux)) {
    const near = uppers.sets.filter(s => s.style === style && Math.max(u / s.ux, s.ux / u) <= NEAR).sort((a, b) => Math.abs(Math.log(a.ux / u)) - Math.abs(Math.log(b.ux / u)))[0];
    upperSet = near && (same(near.ux, u) || !steady) ? near : uppers.set(style, u, 1, tall);
  }
  uppers.frame = uppers.now;
  const s = upperSet, exact = same(u, s.ux), top = Math.round(y0 * dpr), high = Math.round(y1 * dpr) - top, left = box.left * dpr, scale = s.ux / u;
  const origin = exact ? Math.round(left - view.x0 / u) : left - view.x0 / u;
  g.save();
  g.setTransform(1, 0, 0, 1, 0, 0); g.imageSmoothingEnabled = false;
  for (const [k] of cells({...s, uy: 1, tall: home.y1}, {...view, y0: 0, y1: home.y1})) {
    const canvas = uppers.get(s, k, 0) || drawUpperTile(s, k), l = Math.round(origin + k * TILE * scale), r = Math.round(origin + (k + 1) * TILE * scale);
    g.drawImage(canvas, 0, top, TILE, high, l, top, r - l, high);
  }
  g.restore();
}

// --- the map
let worker = null, asked = null, mapExact = false, mapPending = 0;
function startWorker() {
  if (worker) worker.terminate();
  uppers.clear(); maps.clear(); upperSet = asked = seen = null; mapExact = false;
  worker = new Worker(URL.createObjectURL(new Blob([`(${painter})()`], {type: 'text/javascript'})));
  const {birth, death, offset, bytes} = plan.count ? plan.column : {birth: [], death: [], offset: [], bytes: []};
  worker.postMessage({column: {birth, death, offset, bytes}, groups: plan.groups, axis: {order: plan.order, time: plan.time}});
  worker.onmessage = ({data: m}) => {
    const of = asked;
    if (!of || m.id !== of.id) { m.bitmap.close(); return; }
    asked = null;
    maps.put(maps.set(of.style, of.ux, of.uy, of.H), of.k, of.j, m.bitmap);
    if (inMotion) paint(); else paintMap();
  };
}
const styleKey = () => [axis, focus, document.documentElement.dataset.theme, serialOfPlan].join();
let serial = 0;
const reversed = c => (c & 255) << 16 | c & 0xff00 | c >> 16;
function ask(s, k, j) {
  asked = {id: ++serial, style: s.style, axis, k, j, ux: s.ux, uy: s.uy, W: TILE, H: s.tall, x0: k * TILE * s.ux, y0: j * s.tall * s.uy,
    colour: colour.rgb.map(reversed), well: reversed(parseInt(colour.well.slice(1), 16)), strength: colour.rgb.map((_, i) => pale(i) ? .13 : 1)};
  worker.postMessage(asked);
}
/* Only the map: what came from the worker changes nothing else. */
function paintMap() {
  if (!mapPending && !pending) mapPending = requestAnimationFrame(() => {
    mapPending = 0;
    if (pending || printing) return;
    base.setTransform(dpr, 0, 0, dpr, 0, 0);
    base.clearRect(0, box.map - 2, W, box.bottom - box.map + 10);
    drawMap();
  });
}
/* Copies what there is of this pitch, over what there is of others; asks for what is missing.  While it zooms, a level within
   a factor of two is made complete instead.  Returns whether all of the map is painted. */
let level = null;
function copyMap(g) {
  const style = styleKey(), tall = Math.round((box.bottom - box.map) * dpr), ux = pitch(), uy = (view.y1 - view.y0) / tall;
  const left = box.left * dpr, bottom = Math.round(box.bottom * dpr), others = maps.sets.filter(s => s.style === style);
  const fresh = () => maps.find(style, ux, uy, tall) || {style, ux, uy, tall, tiles: new Map()};
  const ratio = s => Math.max(s.ux / ux, ux / s.ux, s.uy / uy, uy / s.uy), lacks = s => cells(s, view).filter(([k, j]) => !s.tiles.has(k + ',' + j));
  const now = steady ? fresh() : null, missing = now && lacks(now);
  let painted = !!now && !missing.length;
  maps.frame = maps.now;
  g.save();
  g.setTransform(1, 0, 0, 1, 0, 0); g.imageSmoothingEnabled = !inMotion;
  if (!painted) {
    others.sort((a, b) => ratio(a) - ratio(b));
    const near = others[0], full = others.find(s => !lacks(s).length);
    painted = !!full;
    for (const s of full && ratio(full) < 2 * ratio(near) ? [full] : [full, near]) {
      if (!s || s === now) continue;
      const kx = s.ux / ux, ky = s.uy / uy, ox = left - view.x0 / ux, oy = bottom + view.y0 / uy;
      for (const [k, j] of cells(s, view)) {
        const picture = maps.get(s, k, j), l = Math.round(ox + k * TILE * kx), r = Math.round(ox + (k + 1) * TILE * kx), t = Math.round(oy - (j + 1) * s.tall * ky), b = Math.round(oy - j * s.tall * ky);
        if (picture) g.drawImage(picture, l, t, r - l, b - t);
      }
    }
    if (steady) level = null;
    else if (full && ratio(full) <= 2) level = full;
    else if (!level || level.style !== style || ratio(level) > 2) level = fresh();
    else level = maps.find(style, level.ux, level.uy, level.tall) || level;
  }
  if (now) {
    const ox = Math.round(left - view.x0 / ux), oy = Math.round(bottom + view.y0 / uy);
    for (const [k, j] of cells(now, view)) { const picture = maps.get(now, k, j); if (picture) g.drawImage(picture, ox + k * TILE, oy - (j + 1) * tall); }
  }
  g.restore();
  mapExact = !!now && !missing.length;
  if (mapExact && !performance.getEntriesByName('image').length) performance.mark('image');
  if (!asked && worker) askNext(now || level, missing || lacks(level));
  return painted;
}
function askNext(now, missing) {
  const w = view.x1 - view.x0, h = view.y1 - view.y0, cx = (view.x0 + view.x1) / 2 / now.ux / TILE, cy = (view.y0 + view.y1) / 2 / now.uy / now.tall;
  const distance = ([k, j]) => Math.abs(k + .5 - cx) + Math.abs(j + .5 - cy), nearest = list => list.sort((a, b) => distance(a) - distance(b))[0];
  const has = (s, [k, j]) => s.tiles.has(k + ',' + j), room = Math.floor(maps.most / (4 * TILE * now.tall)) - cells(now, view).length;
  let next = nearest(missing), of = now;
  const ux = home.x1 / (box.width * dpr), uy = home.y1 / now.tall, all = maps.find(now.style, ux, uy, now.tall) || {...now, ux, uy, tiles: new Map()}, every = cells(all, home);
  if (!next && steady) {
    const more = cells(now, {x0: view.x0 - w * .35, x1: view.x1 + w * .35, y0: view.y0 - h * .15, y1: view.y1 + h * .15});
    if (more.length + every.length <= room) next = nearest(more.filter(c => !has(now, c)));
  }
  if (!next && !inMotion && every.length <= room) {
    next = every.find(c => !has(all, c)); of = all;
    for (const s of maps.sets) s.whole = s === of;
  }
  if (next) ask(of, ...next);
}
