// ---- events
function zoneOf(x, y) { return y >= box.strip - 8 ? 'strip' : y >= box.map - 6 ? 'map' : 'upper'; }
function point(e) { const r = stage.getBoundingClientRect(); return {x: e.clientX - r.left, y: e.clientY - r.top}; }
const fingers = new Map();
let drag = null, hoverPending = 0, lastMove = null;
stage.addEventListener('pointerdown', e => {
  if (e.button) return;
  const p = point(e);
  fingers.set(e.pointerId, p);
  stage.setPointerCapture(e.pointerId);
  cancelAnimationFrame(moving);
  if (fingers.size === 2) { const [a, b] = fingers.values(); drag = {pinch: Math.hypot(a.x - b.x, a.y - b.y), zone: zoneOf(a.x, a.y), view: {...view}, x: toX((a.x + b.x) / 2), y: toY((a.y + b.y) / 2), moved: true}; return; }
  const zone = zoneOf(p.x, p.y);
  drag = {zone, x: p.x, y: p.y, view: {...view}, moved: false, touch: e.pointerType === 'touch'};
  if (zone === 'strip') {
    const a = stripX(view.x0), b = stripX(view.x1);
    drag.part = Math.abs(p.x - a) < 9 ? 'left' : Math.abs(p.x - b) < 9 ? 'right' : p.x > a && p.x < b && view.x1 - view.x0 < home.x1 * .999 ? 'move' : 'new';
  }
});
stage.addEventListener('pointermove', e => {
  const p = point(e);
  if (fingers.has(e.pointerId)) fingers.set(e.pointerId, p);
  if (drag && drag.pinch && fingers.size === 2) {
    const [a, b] = fingers.values(), f = drag.pinch / Math.max(20, Math.hypot(a.x - b.x, a.y - b.y)), cx = (a.x + b.x) / 2, cy = (a.y + b.y) / 2;
    view = drag.view; view = zoomed(f, drag.zone === 'map' ? f : 1, drag.x, drag.y);
    const dx = toX(cx) - drag.x, dy = drag.zone === 'map' ? toY(cy) - drag.y : 0;
    view = bound({x0: view.x0 - dx, x1: view.x1 - dx, y0: view.y0 - dy, y1: view.y1 - dy});
    paint(); return;
  }
  if (drag) {
    if (!drag.moved && Math.hypot(p.x - drag.x, p.y - drag.y) > 4) { drag.moved = true; hide(); }
    if (!drag.moved) return;
    const v = drag.view;
    if (drag.zone === 'strip') {
      const dx = (p.x - drag.x) / box.width * home.x1, at = x => (clamp(x, box.left, box.right) - box.left) / box.width * home.x1;
      if (drag.part === 'move') view = bound({...v, x0: v.x0 + dx, x1: v.x1 + dx});
      else { const a = drag.part === 'left' ? v.x1 : drag.part === 'right' ? v.x0 : at(drag.x), b = at(p.x); view = bound({...v, x0: Math.min(a, b), x1: Math.max(a, b)}); }
    } else {
      const dx = (p.x - drag.x) / box.width * (v.x1 - v.x0), dy = drag.zone === 'map' ? (p.y - drag.y) / (box.bottom - box.map) * (v.y1 - v.y0) : 0;
      view = bound({x0: v.x0 - dx, x1: v.x1 - dx, y0: v.y0 + dy, y1: v.y1 + dy});
    }
    stage.style.cursor = 'grabbing';
    paint(); return;
  }
  lastMove = p;
  if (!hoverPending) hoverPending = requestAnimationFrame(() => { hoverPending = 0; if (lastMove) hovering(lastMove); });
});
function finish(e) {
  fingers.delete(e.pointerId);
  if (drag && !drag.moved && e.type === 'pointerup') {
    const p = point(e);
    if (drag.zone === 'strip') { setMoment(step((clamp(p.x, box.left, box.right) - box.left) / box.width * home.x1)); reveal(); }
    else if (p.x >= box.left && p.x <= box.right) {
      setMoment(step(toX(p.x)));
      if (drag.zone === 'map') select(plan.hit(moment, toY(p.y)));
      if (drag.touch) hide();
    }
  }
  if (!fingers.size) drag = null;
  stage.style.cursor = '';
}
stage.addEventListener('pointerup', finish);
stage.addEventListener('pointercancel', finish);
stage.addEventListener('pointerleave', () => { lastMove = null; hide(); });
stage.addEventListener('dblclick', e => { const p = point(e), zone = zoneOf(p.x, p.y); if (zone === 'strip') glide({...home}); else glide(zoomed(.4, zone === 'map' ? .4 : 1, toX(p.x), toY(p.y))); });
stage.addEventListener('wheel', e => {
  const p = point(e), zone = zoneOf(p.x, p.y), unit = e.deltaMode ? 30 : 1, before = JSON.stringify(view);
  cancelAnimationFrame(moving);
  if (zone === 'strip' || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
    const dx = (e.deltaX || e.deltaY) * unit / box.width * (view.x1 - view.x0);
    view = bound({...view, x0: view.x0 + dx, x1: view.x1 + dx});
  } else {
    const f = Math.exp(clamp(e.deltaY * unit, -160, 160) * (e.ctrlKey ? .01 : .0022));
    const gutter = p.x < box.left;
    view = zoomed(gutter && zone === 'map' ? 1 : f, zone === 'map' && !e.altKey ? f : 1, toX(clamp(p.x, box.left, box.right)), toY(clamp(p.y, box.map, box.bottom)));
  }
  if (JSON.stringify(view) !== before || e.ctrlKey) { e.preventDefault(); hide(); paint(); }  // fully zoomed out, the page scrolls
}, {passive: false});

function hide() { hover = null; $('card').style.visibility = 'hidden'; paintOver(); }
function hovering(p) {
  const zone = zoneOf(p.x, p.y);
  if (p.x < box.left || p.x > box.right || zone === 'strip') { stage.style.cursor = zone === 'strip' ? 'ew-resize' : p.x < box.left && zone === 'map' ? 'ns-resize' : ''; hide(); return; }
  stage.style.cursor = '';
  const s = step(toX(p.x)), buffer = zone === 'map' && p.y <= box.bottom ? plan.hit(s, toY(p.y)) : -1;
  hover = {x: p.x, zone, buffer};
  const card = $('card');
  if (buffer >= 0) card.innerHTML = facts(buffer);
  else {
    const rate = speed(s);
    card.innerHTML = `<div class="name">${breaks(plan.op(s))}</div><div class="soft">${unit()} ${whole(s)}, ${plan.doing(s)}${plan.clocked ? ', ' + span(plan.took[s]) : ''}${rate ? '<br>' + rate : ''}</div><dl>` +
      SHOWN.filter(k => plan.used(k, s)).map(k => `<dt>${key(k)} ${CATEGORY[k]}</dt><dd>${size(plan.used(k, s))}</dd>`).join('') + `<dt><b style="color:var(--ink)">in use</b></dt><dd><b>${size(plan.total[s])}</b></dd>` +
      (plan.step.held_bytes[s] ? `<dt>measured</dt><dd>${size(plan.step.held_bytes[s])}</dd>` : '') +
      (plan.step.live_bytes[s] ? `<dt>in the arena</dt><dd>${size(plan.step.live_bytes[s])}</dd>` : '') + '</dl>';
  }
  const w = card.offsetWidth, h = card.offsetHeight;
  card.style.transform = `translate(${Math.round(p.x + 18 + w > W ? Math.max(2, p.x - 18 - w) : p.x + 18)}px,${Math.round(clamp(p.y - h / 2, 4, Math.min(H, innerHeight - stage.getBoundingClientRect().top) - h - 4))}px)`;
  card.style.visibility = buffer >= 0 && buffer === selected ? 'hidden' : 'visible';  // the panel shows it already
  paintOver();
}

let liveByAddress = null;
document.addEventListener('keydown', e => {
  const field = e.target.matches('input, select'), inTable = e.target.closest && e.target.closest('#scroll');
  if (e.ctrlKey || e.metaKey || e.altKey || $('keys').open || !plan || !plan.ops) return;
  if (field) { if (e.key === 'Escape') { e.target.value = ''; list(); stage.focus({preventScroll: true}); } return; }
  const far = e.shiftKey ? 10 : 1, x = mid(moment), y = selected >= 0 ? plan.column.offset[selected] + plan.column.bytes[selected] / 2 : (view.y0 + view.y1) / 2;
  const zoom = f => glide(zoomed(f, selected >= 0 ? f : 1, clamp(x, view.x0, view.x1), clamp(y, view.y0, view.y1)));
  const go = s => { setMoment(s); reveal(); };
  const walk = by => {  // through what is alive here, by address
    if (!liveByAddress) liveByAddress = plan.alive(moment).sort((a, b) => plan.column.offset[a] - plan.column.offset[b]);
    const at = liveByAddress.indexOf(selected);
    select(liveByAddress[at < 0 ? (by > 0 ? 0 : liveByAddress.length - 1) : clamp(at + by, 0, liveByAddress.length - 1)]);
  };
  const row = by => { const at = listed.findIndex(r => r.i >= 0 && r.i === selected); const k = clamp(at + by, 0, listed.length - 1); if (listed[k].i >= 0) select(listed[k].i); const b = $('scroll'), t = k * HEIGHT; if (t < b.scrollTop) b.scrollTop = t; else if (t + 2 * HEIGHT + 32 > b.scrollTop + b.clientHeight) b.scrollTop = t + 2 * HEIGHT + 32 - b.clientHeight; fill(); };
  const keys = {ArrowLeft: () => go(moment - far), ArrowRight: () => go(moment + far), Home: () => go(0), End: () => go(plan.ops - 1),
    ArrowUp: () => inTable ? row(-1) : e.target === stage ? walk(far) : 0, ArrowDown: () => inTable ? row(1) : e.target === stage ? walk(-far) : 0,
    '+': () => zoom(.5), '=': () => zoom(.5), '-': () => zoom(2), 0: () => glide({...home}), p: () => go(plan.peak_step), x: () => plan.clocked && setAxis(axis === 'order' ? 'time' : 'order'),
    '/': () => { $('filter').focus(); $('filter').select(); }, Escape: () => { focus = -1; select(-1); list(); paint(); }, '?': () => $('keys').showModal()};
  if (inTable && (e.key === 'Home' || e.key === 'End')) return;
  if (/^Arrow(Up|Down)$/.test(e.key) && !inTable && e.target !== stage) return;
  if (keys[e.key]) { e.preventDefault(); keys[e.key](); }
});

function setAxis(name) {
  const a = step(view.x0), b = step(view.x1), full = view.x1 - view.x0 > home.x1 * .999, y = [view.y0, view.y1];
  axis = name; reset();
  if (!full) view = bound({x0: X()[a], x1: X()[Math.min(plan.ops, b + 1)], y0: y[0], y1: y[1]}); else { view.y0 = y[0]; view.y1 = y[1]; }
  setAxisButtons();
  seen = null;
  paint();
}
$('byop').onclick = () => setAxis('order'); $('bytime').onclick = () => setAxis('time');
$('in').onclick = () => glide(zoomed(.5, 1, clamp(mid(moment), view.x0, view.x1), 0));
$('out').onclick = () => glide(zoomed(2, 2, clamp(mid(moment), view.x0, view.x1), (view.y0 + view.y1) / 2));
$('fit').onclick = () => glide({...home});
$('prev').onclick = () => { setMoment(moment - 1); reveal(); }; $('next').onclick = () => { setMoment(moment + 1); reveal(); };
$('peak').onclick = () => { setMoment(plan.peak_step, true); reveal(); };
$('theme').onclick = () => { theme(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'); showAll(); };
$('patterns').onclick = () => { patterns = !patterns; $('patterns').setAttribute('aria-pressed', patterns); textures(); paint(); };
$('help').onclick = () => $('keys').showModal();
$('filter').oninput = list;
$('scroll').onscroll = () => fill();
$('legend').onclick = e => { const b = e.target.closest('[data-focus]'); if (!b) return; const k = +b.dataset.focus; focus = focus === k ? -1 : k; showMoment(); list(); paint(); $('legend').querySelector(`[data-focus="${k}"]`).focus(); };
$('columns').onclick = e => { const b = e.target.closest('[data-sort]'); if (!b) return; const k = b.dataset.sort; column = {key: k, down: column.key === k ? !column.down : k === 'bytes'}; list(); $('columns').querySelector(`[data-sort="${k}"]`).focus(); };
$('chosen').onclick = e => { const b = e.target.closest('[data-pick]'); if (b) select(+b.dataset.pick); };
$('rows').onclick = e => { const tr = e.target.closest('[data-row]'); if (tr) { const r = listed[tr.dataset.row]; select(r.i === selected || r.i < 0 ? -1 : r.i); } };
$('csv').onclick = () => {
  const quote = v => /[",\n]/.test(v) ? `"${String(v).replace(/"/g, '""')}"` : v;
  const text = 'name,category,shape,bytes,offset,birth,death\n' + listed.map(r => [r.name, CATEGORY[r.category] || 'not in use', r.shape, r.bytes, r.offset < 0 ? '' : r.offset, r.birth, r.death].map(quote).join()).join('\n') + '\n';
  const a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([text], {type: 'text/csv'})); a.download = `${plan.model}-op${moment}.csv`; a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
};
$('bylayer').onclick = () => { grouping = 'layer'; showGroups(); }; $('bykind').onclick = () => { grouping = 'kind'; showGroups(); };
$('groupcolumns').onclick = e => { const b = e.target.closest('[data-sort]'); if (!b) return; const k = b.dataset.sort; order = {key: k, down: order.key === k ? !order.down : k !== 'name'}; showGroups(); $('groupcolumns').querySelector(`[data-sort="${k}"]`).focus(); };
$('which').onchange = e => show(plans[e.target.value]);
/* Paper: light, with patterns, at three dots per pixel and a width that fits A4 and Letter. */
let kept = '';
function paper(on) {
  if (on) kept = document.documentElement.dataset.theme;
  printing = on; patterns = on || $('patterns').getAttribute('aria-pressed') === 'true';
  stage.style.width = on ? '690px' : ''; stage.style.height = on ? '560px' : '';
  theme(on ? 'light' : kept);
  layout(); showHead(); showMoment(); fill(); showGroups();
  over = on ? base : $('over').getContext('2d');  // one canvas: Chromium prints clearRect() as white, over the other
  draw();
}
addEventListener('beforeprint', () => paper(true));
addEventListener('afterprint', () => paper(false));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', e => { theme(e.matches ? 'dark' : 'light'); showAll(); });
new ResizeObserver(() => { if (plan && plan.ops && !printing) { layout(); showHead(); draw(); } }).observe(stage);

// ---- start
function showAll() { showHead(); showMoment(); fill(); showCurve(); showParts(); showGroups(); paint(); }
async function show(element) {
  try { plan = await decode(element); } catch (error) { $('verdict').textContent = 'This recording cannot be read'; $('what').textContent = String(error); document.body.classList.remove('waiting'); return; }
  performance.mark('indexed');
  serialOfPlan++;
  axis = 'order'; selected = -1; focus = -1; lives = []; moment = plan.peak_step; tableMoment = -1; memo = []; rows = []; listed = []; liveByAddress = null;
  $('filter').value = '';
  $('bytime').disabled = !plan.clocked;
  $('charts').textContent = plan.foreign() ? 'Over time' : plan.stretches.length > 3 ? 'One step, run by run' : 'One step';
  for (const id of ['stagecard', 'moment', 'alivecard', 'groupcard']) $(id).hidden = !plan.ops;
  document.body.classList.remove('waiting');
  layout(); showHead(); showCurve();
  if (!plan.ops) { showParts(); performance.mark('table'); return; }
  reset(); startWorker(); showMoment(); draw();
  setAxisButtons();
  performance.mark('drawn');
  /* tables come one frame later: they never delay the pictures */
  requestAnimationFrame(() => setTimeout(() => { gather(); showParts(); showGroups(); performance.mark('table'); }));
}
function setAxisButtons() { $('byop').setAttribute('aria-pressed', axis === 'order'); $('bytime').setAttribute('aria-pressed', axis === 'time'); $('byop').textContent = plan.foreign() ? 'Events' : 'Ops'; }
theme(query.get('theme') || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'));
$('patterns').setAttribute('aria-pressed', patterns);
/* Of a large recording the file begins with a picture of all of it: drawn at once, while the rest is still being read. */
function preview(text) {
  const o = JSON.parse(text), n = o.live.length, top = Math.max(o.budget, o.peak) * 1.09, high = Math.max(o.arena, o.budget - o.live[0][0]) * 1.06, g = base;
  document.body.classList.remove('waiting');
  $('verdict').textContent = `Reading ${whole(o.buffers)} buffers`;
  layout();
  g.setTransform(dpr, 0, 0, dpr, 0, 0);
  const w = box.width / n, rise = (box.upper - box.top) / top, rows = o.map.length, h = (box.bottom - box.map) * o.arena / high / rows;
  o.live.forEach((column, x) => {
    let y = box.upper;
    for (const k of LAYERS) if (k < 8 && column[k]) { const up = column[k] * rise; g.fillStyle = colour.kind[k]; g.fillRect(box.left + x * w, y - up, w + .5, up); y -= up; }
  });
  o.map.forEach((row, j) => {
    for (let x = 0, from = 0; x < row.length; x = from) {
      while (from < row.length && row[from] === row[x]) from++;
      const k = LETTER.indexOf(row[x].toUpperCase());
      if (k < 0) continue;
      g.globalAlpha = row[x] === LETTER[k] ? 1 : .4;
      g.fillStyle = colour.kind[k];
      g.fillRect(box.left + x * w, box.bottom - (j + 1) * h, (from - x) * w + .5, h + .5);
    }
  });
  g.globalAlpha = 1;
  performance.mark('preview');
}
function start() {
  plans = [...document.querySelectorAll('script.recording')];
  if (plans.length > 1) { $('which').hidden = false; $('which').innerHTML = plans.map((p, i) => `<option value="${i}">${html(p.dataset.name)}</option>`).join(''); }
  if (plans.length) { const first = clamp(+query.get('plan') || 0, 0, plans.length - 1); $('which').value = first; show(plans[first]); }
  else { $('verdict').textContent = 'No recording in this page'; document.body.classList.remove('waiting'); }
}
if ($('overview')) preview($('overview').textContent);
if (document.readyState === 'loading') addEventListener('DOMContentLoaded', start); else start();
