// --- text beside the pictures
const key = (category, again) => `<span class="key${again ? ' re' : ''}" style="background-color:var(--c${category});color:${colour.on[category]}" aria-hidden="true">${again ? '' : LETTER[category]}</span>`;
const unit = () => plan.foreign() ? 'event' : 'op';
function facts(i) {
  const c = plan.column, b = c.birth[i], d = c.death[i], always = b === 0 && d >= plan.ops, one = unit();
  const list = [['size', `${size(c.bytes[i])} <span class="soft">(${whole(c.bytes[i])} B)</span>`]];
  if (c.asked_bytes[i] && c.asked_bytes[i] !== c.bytes[i]) list.push(['asked for', `${whole(c.asked_bytes[i])} B`]);
  if (plan.text(c.shape[i])) list.push(['shape', `<span class="mono">${html(plan.text(c.shape[i]))}</span>`]);
  list.push(['offset', `<span class="mono">${whole(c.offset[i])}</span>`], ['born', always ? 'before the step' : `${one} ${whole(b)}`], ['dies', always ? 'kept for the next step' : d >= plan.ops ? 'alive at the end' : `after ${one} ${whole(d - 1)}`],
    ['kept for', `${whole(d - b)} ${one}${d - b > 1 ? 's' : ''}${plan.clocked ? ', ' + span(plan.time[Math.min(d, plan.ops)] - plan.time[b]) : ''}`]);
  const source = plan.text(c.source[i]);
  return `<div class="name">${breaks(plan.label(i))}</div><div class="tag">${c.flags[i] & RECOMPUTED ? key(c.category[i], true) + 'recomputed ' : key(c.category[i])}${CATEGORY[c.category[i]]}</div><dl>${list.map(([k, v]) => `<dt>${k}</dt><dd>${v}</dd>`).join('')}</dl>` + (source ? `<div class="source mono">${html(source)}</div>` : '');
}

// --- the head: verdict, facts, a sum that adds up
function verdict() {
  const p = plan, h = p.head, held = h.measured_peak_bytes;
  if (p.source === 'profile') return [held <= p.budget || !p.budget, held <= p.budget || !p.budget ? 'Held:' : 'Exceeded:', `${tidy(held)} measured` + (p.budget ? ` of ${tidy(p.budget)}` : `, ${tidy(p.peak)} planned`)];
  if (p.budget) return [p.fits, p.fits ? 'Fits:' : 'Does not fit:', `${tidy(p.peak)} of ${tidy(p.budget)}`];
  return [true, 'Peak:', tidy(p.peak)];
}
function showHead() {
  const p = plan, h = p.head, [good, word, rest] = verdict(), room = p.budget - p.peak;
  document.title = `${p.model.split(':')[0]}: ${word} ${rest}`;
  $('verdict').innerHTML = `<span class="${good ? 'yes' : 'no'}">${word}</span> ${nobreak(html(rest))}`;
  const kind = {plan: 'plan', profile: 'profile', pytorch: 'PyTorch memory snapshot', xla: 'XLA buffer assignment', program: 'recording of a program'}[p.source] || 'recording';
  $('what').innerHTML = `<b title="${html(p.model)}">${html(p.model.split(':')[0])}</b>` + [h.batch ? `batch ${whole(h.batch)}` : '', h.precision, h.optimizer].filter(Boolean).map(t => ', ' + html(t)).join('') + (h.device ? ` on ${html(h.device)}` : '') + `, ${kind}`;
  const list = [];
  if (h.time_ratio) list.push(['Step time', `${h.time_ratio.toFixed(2)}× <small>unconstrained</small>`]);
  if (h.measured_step_ns) list.push(['Measured', `${span(h.measured_step_ns)} <small>per step</small>`]);
  if (p.minimum) list.push(['Minimum', `<span title="set by ${html(h.minimum_op)}">${size(p.minimum)}</span>`]);
  if (p.unconstrained) list.push(['Unconstrained', size(p.unconstrained)]);
  if (h.time_ratio) list.push(['Recomputed', `${whole(h.recomputed_ops)} <small>ops</small>`]);
  if (h.micro_batches > 1) list.push(['Micro-batches', whole(h.micro_batches)]);
  if (h.largest_batch) list.push(['Largest batch', whole(h.largest_batch)]);
  if (p.foreign()) list.push(['Events', whole(p.ops)], ['Blocks', whole(p.count)]);
  $('facts').innerHTML = list.map(([t, d]) => `<div><dt>${t}</dt><dd>${d}</dd></div>`).join('');
  const s = p.peak_step, parts = CATEGORY.map((name, k) => [k, name, p.ops ? p.used(k, s) : 0]).filter(q => q[2]);
  const slack = p.peak - (p.ops ? p.total[s] : 0), scale = Math.max(p.budget, p.peak), width = printing ? 620 : $('sum').clientWidth;
  base.font = '600 12px ' + colour.sans;
  $('sum').innerHTML = parts.map(([k, name, bytes]) => {
    const w = bytes / scale * width - 18, fits = text => base.measureText(text).width <= w, label = fits(name + ' ' + size(bytes)) ? `<b>${name}</b> ${size(bytes)}` : fits(name) ? `<b>${name}</b>` : '';
    return `<span class="${label ? '' : 'thin'}" style="flex:0 0 ${bytes / scale * 100}%;background:var(--c${k});color:${colour.on[k]}" title="${name} ${size(bytes)}">${label}</span>`;
  }).join('') + `<span class="room thin" title="not in use ${size(Math.max(0, slack))}, headroom ${size(Math.max(0, room))}"></span>`;
  const sum = [...parts.map(q => q[1] + ' ' + size(q[2])), ...(slack ? ['not in use ' + size(slack)] : [])];
  $('sum').setAttribute('aria-label', 'At the peak: ' + sum.join(', '));
  $('sumtext').innerHTML = `${sum.map(nobreak).join(' + ')} = <b>${nobreak(size(p.peak))}</b>${!p.budget ? '' : room < 0 ? `, ${size(-room)} over the budget` : `, which leaves <b>${nobreak(size(room) + ' of headroom')}</b>`}.`;
  const note = [h.note, p.file.truncated ? 'This recording is incomplete: its file ended too early.' : ''].filter(Boolean).join(' ');
  $('note').textContent = note; $('note').hidden = !note;
  $('timing').textContent = p.timed ? 'Times are measured.' : p.clocked ? `Times are predicted: ${span(h.step_ns)} per step.` : '';
  $('made').textContent = [h.program, h.created].filter(Boolean).join(', ');
  $('peak').title = 'Go to the peak (p)';
  const alt = p.foreign() ? [] : PHASES.map((name, phase) => { let best = -1; for (let o = 0; o < p.ops; o++) if (p.step.phase[o] === phase && !p.step.again[o] && (best < 0 || p.total[o] > p.total[best])) best = o; return best < 0 ? '' : `${name}: at most ${size(p.total[best])}, at op ${best}, ${p.op(best)}.`; });
  $('alt').textContent = `Memory in use over ${whole(p.ops)} ${unit()}s, and the address and lifetime of ${whole(p.count)} buffers. ${alt.join(' ')} The peak is ${size(p.ops ? p.total[s] : 0)} at ${unit()} ${whole(s)}, ${p.ops ? p.op(s) : ''}. The table below lists everything alive at the selected moment.`;
}
/* Arithmetic and traffic of an op against what the device can do. */
function speed(s) {
  const o = plan.step, ns = plan.took[s], c = plan.ceiling;
  if (!ns || !(o.flops[s] || o.bytes[s])) return '';
  const f = o.flops[s] / ns, b = o.bytes[s] / ns, share = Math.max(c.flops ? f / c.flops : 0, c.bytes ? b / c.bytes : 0);
  return `${si(f * 1e9)}FLOP/s, ${si(b * 1e9)}B/s` + (share ? `, ${percent(share)} of the ceiling` : '');
}
function si(x) { let i = 0; while (x >= 1000 && i < 5) { x /= 1000; i++; } return +x.toPrecision(3) + ' ' + ['', 'k', 'M', 'G', 'T', 'P'][i]; }
const percent = x => (x * 100).toFixed(x < .0995 ? 1 : 0) + ' %';
function largest() {
  const c = plan.column, top = [];
  for (const i of plan.alive(moment)) if (top.length < 4 || c.bytes[i] > c.bytes[top[3]]) { top.push(i); top.sort((a, b) => c.bytes[b] - c.bytes[a]); top.length = Math.min(4, top.length); }
  return top.map(i => `<button class="pick" data-pick="${i}">${key(c.category[i], c.flags[i] & RECOMPUTED)}<span class="mono">${html(plan.label(i))}</span><span>${size(c.bytes[i])}</span></button>`).join('');
}
function showMoment() {
  const p = plan, s = moment, peak = s === p.peak_step;
  const held = p.step.held_bytes[s], rate = speed(s), one = unit();
  $('at').innerHTML = `<b>${peak ? 'The peak, ' + one : one[0].toUpperCase() + one.slice(1)} ${whole(s)}</b> <span class="soft">of ${whole(p.ops)}</span><span class="name op">${breaks(p.op(s))}</span><span class="soft">${p.doing(s)}${p.clocked ? ', ' + span(p.took[s]) : ''}${rate ? ', ' + rate : ''}${held ? `, ${size(held)} measured` : ''}</span>`;
  const rows = SHOWN.filter(k => k !== 7 || p.live[7].some(Boolean)).map(k => `<tr class="${focus >= 0 && focus !== k ? 'off' : ''}"><td><button data-focus="${k}" aria-pressed="${focus === k}">${key(k)}${CATEGORY[k]}</button></td><td class="num">${size(p.used(k, s))}</td></tr>` +
    (k === 4 && p.head.recomputed_ops ? `<tr class="sub ${focus >= 0 && focus !== 4 ? 'off' : ''}"><td><span style="display:flex;gap:9px;align-items:center">${key(4, true)}of these recomputed</span></td><td class="num">${size(p.live[AGAIN][s])}</td></tr>` : ''));
  const slack = p.peak - p.total[s];
  $('legend').innerHTML = rows.join('') + `<tr class="total"><td>in use</td><td class="num">${size(p.total[s])}</td></tr><tr><td class="soft"><span style="display:flex;gap:9px;align-items:center"><span class="key none"></span>reserved, not in use</span></td><td class="num soft">${size(slack)}</td></tr><tr><td class="soft">${p.foreign() ? 'peak' : 'planned peak'}</td><td class="num soft">${size(p.peak)}</td></tr>`;
  $('chosen').innerHTML = selected < 0 ? `<p class="soft">Largest at this moment</p>${largest()}` : facts(selected) + (lives.length > 1 ? `<p class="soft" style="margin-top:4px">${lives.length} lives in this step: recomputed ${lives.length - 1 > 1 ? lives.length - 1 + ' times' : 'once'}.</p>` : '');
  stage.setAttribute('aria-valuemin', 0); stage.setAttribute('aria-valuemax', p.ops - 1); stage.setAttribute('aria-valuenow', s);
  stage.setAttribute('aria-valuetext', `${one} ${s}, ${p.op(s)}, ${size(p.total[s])} in use${peak ? ', the peak' : ''}`);
  $('alive').textContent = peak ? 'Alive at the peak' : `Alive at ${one} ${whole(s)}`;
}

// --- table: everything alive, plus what is not a buffer, so that it adds up to the peak
const COLUMNS = [['name', 'name', ''], ['category', 'category', 'm screen'], ['shape', 'shape', 'm'], ['bytes', 'size', 'num'], ['birth', 'born – dies', 'num'], ['offset', 'offset', 'num x']];
const HEIGHT = 28;
let rows = [], listed = [], lives = [], tableMoment = -1;
function gather() {
  const p = plan, c = p.column, slack = p.peak - p.total[moment];
  rows = p.alive(moment).map(i => ({i, name: p.label(i), category: c.category[i], again: c.flags[i] & RECOMPUTED, shape: p.text(c.shape[i]), bytes: c.bytes[i], birth: c.birth[i], death: c.death[i], offset: c.offset[i]}));
  if (p.runtime) rows.push({i: -1, name: 'runtime: process code, stacks and bookkeeping', category: 0, shape: '', bytes: p.runtime, birth: 0, death: p.ops, offset: -1});
  if (slack) rows.push({i: -2, name: 'reserved, not in use (gaps, whole pages)', category: -1, shape: '', bytes: slack, birth: 0, death: p.ops, offset: -1});
  tableMoment = moment;
  list();
}
function list() {
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean), k = column.key, sign = column.down ? -1 : 1;
  listed = rows.filter(r => (focus < 0 || r.category === focus) && words.every(w => r.name.toLowerCase().includes(w) || (CATEGORY[r.category] || 'not in use').includes(w) || r.shape.includes(w) || r.again && 'recomputed'.includes(w)));
  listed.sort((a, b) => a[k] < b[k] ? -sign : a[k] > b[k] ? sign : a.offset - b.offset);
  $('scroll').scrollTop = 0;
  fill();
  const shown = listed.reduce((t, r) => t + r.bytes, 0), all = rows.reduce((t, r) => t + r.bytes, 0), used = plan.total[moment] - plan.runtime, hidden = rows.length - listed.length;
  $('foot').innerHTML = `<div><b>${whole(listed.length)}</b> rows, <b>${whole(shown)} B</b>${hidden ? `; ${whole(hidden)} rows with ${whole(all - shown)} B are filtered out` : ''}</div>` +
    `<div>buffers ${whole(used)} + runtime ${whole(plan.runtime)} + not in use ${whole(plan.peak - plan.total[moment])} = <b>${whole(all)} B</b> ${all === plan.peak ? `<span class="ok">✓ equals the ${plan.foreign() ? '' : 'planned '}peak</span>` : 'does not equal the peak'}</div>`;
  $('columns').innerHTML = COLUMNS.map(([id, text, cls]) => `<th scope="col" class="${cls} t-${id}"${column.key === id ? ` aria-sort="${column.down ? 'descending' : 'ascending'}"` : ''}><button data-sort="${id}">${text}</button></th>`).join('');
  $('table').setAttribute('aria-rowcount', listed.length + 1);
}
function fill() {
  const box = $('scroll'), n = listed.length, most = rows.reduce((m, r) => Math.max(m, r.bytes), 1), from = printing ? 0 : clamp(Math.floor(box.scrollTop / HEIGHT) - 6, 0, Math.max(0, n)), to = Math.min(n, printing ? 30 : from + Math.ceil(box.clientHeight / HEIGHT) + 12);
  let out = from ? `<tr style="height:${from * HEIGHT}px" aria-hidden="true"><td></td></tr>` : '';
  for (let k = from; k < to; k++) {
    const r = listed[k], always = r.i < 0 || r.birth === 0 && r.death >= plan.ops;
    out += `<tr data-row="${k}" aria-rowindex="${k + 2}" class="${r.i >= 0 && r.i === selected ? 'sel' : ''}"><td class="mono" title="${html(r.name)}">${r.category < 0 ? '<span class="key none"></span>' : key(r.category, r.again)}${html(r.name)}</td>` +
      `<td class="m screen soft">${r.category < 0 ? '' : CATEGORY[r.category]}</td><td class="m mono soft">${html(r.shape)}</td>` +
      `<td class="num" title="${whole(r.bytes)} B, ${(r.bytes / plan.peak * 100).toFixed(2)} % of the peak"><span class="meter"><i style="width:${r.bytes / most * 100}%;background:${r.category < 0 ? 'var(--faint)' : `var(--c${r.category})`}"></i></span>${size(r.bytes)}</td>` +
      `<td class="num soft">${always ? 'always' : whole(r.birth) + ' – ' + whole(r.death - 1)}</td><td class="num x mono soft">${r.offset < 0 ? '' : whole(r.offset)}</td></tr>`;
  }
  if (printing && to < n) out += `<tr><td class="soft" style="overflow:visible">and ${whole(n - to)} more rows, ${whole(listed.slice(to).reduce((t, r) => t + r.bytes, 0))} B</td></tr>`;
  else if (to < n) out += `<tr style="height:${(n - to) * HEIGHT}px" aria-hidden="true"><td></td></tr>`;
  $('rows').innerHTML = out || '<tr><td class="soft" style="overflow:visible">No row matches the filter.</td></tr>';
}
let tableTimer = 0;
function setMoment(s, soon) {
  s = clamp(s, 0, plan.ops - 1);
  if (s !== moment || tableMoment < 0) {
    moment = s; liveByAddress = null;
    showMoment();
    clearTimeout(tableTimer);
    if (soon || plan.count < 2e4) gather(); else tableTimer = setTimeout(gather, 90);  // a large table waits until the cursor rests
  }
  paintOver();
}
function select(i) {
  selected = i; lives = [];
  if (i >= 0) {
    const {value, birth} = plan.column;
    /* value is 0 where a value lives once */
    if (value[i]) for (let k = 0; k < plan.count; k++) if (value[k] === value[i]) lives.push(k);
    lives.sort((a, b) => birth[a] - birth[b]);
  }
  showMoment(); fill(); paintOver();
}
let overPending = 0;
function paintOver() { if (!overPending && !pending) overPending = requestAnimationFrame(() => { overPending = 0; drawOver(); }); }
function reveal() { const x = mid(moment); if (x < view.x0 || x > view.x1) { const w = view.x1 - view.x0; view = bound({...view, x0: x - w / 2, x1: x + w / 2}); paint(); } }

// --- by layer and op: time, arithmetic, bytes alive at the moment
let grouping = 'layer', order = {key: 'ns', down: true};
const GROUPS = [['name', 'name', ''], ['ns', 'time', 'num'], ['share', 'of the step', 'num m'], ['count', 'ops', 'num m'], ['flops', 'FLOP/s', 'num m'], ['ceiling', 'of the ceiling', 'num m'], ['bytes', 'alive at the peak', 'num alive']];
const groupsOf = new WeakMap();
function groups() {
  const known = groupsOf.get(plan) || groupsOf.set(plan, {}).get(plan);
  if (known[grouping]) return known[grouping];
  const p = plan, o = p.step, c = p.column, found = new Map(), key = grouping === 'layer' ? o.layer : o.kind;
  const get = name => { if (!found.has(name)) found.set(name, {name, ns: 0, again: 0, count: 0, work: 0, moved: 0, bytes: 0}); return found.get(name); };
  if (!p.foreign()) for (let s = 0; s < p.ops; s++) { const g = get(p.text(key[s])); g.ns += p.took[s]; g.count++; g.work += o.flops[s]; g.moved += o.bytes[s]; if (o.again[s]) g.again += p.took[s]; }
  if (p.ops) for (const i of p.alive(p.peak_step)) {
    const source = p.foreign() ? p.text(c.source[i]).split('\n')[0] || p.text(c.name[i]) : p.text(c.name[i]);
    get(p.foreign() ? source : grouping === 'layer' ? scope(source) : CATEGORY[c.category[i]] + ' (no op)').bytes += c.bytes[i];
  }
  const total = p.time[p.ops] || 1;
  return known[grouping] = [...found.values()].map(g => { const f = g.ns ? g.work / g.ns : 0; return {...g, share: g.ns / total, flops: f * 1e9, ceiling: g.ns ? Math.max(p.ceiling.flops ? f / p.ceiling.flops : 0, p.ceiling.bytes ? g.moved / g.ns / p.ceiling.bytes : 0) : 0}; });
}
function showGroups() {
  const list = groups().slice(), k = order.key, sign = order.down ? -1 : 1, foreign = plan.foreign(), cap = printing ? 20 : 400;
  list.sort((a, b) => a[k] < b[k] ? -sign : a[k] > b[k] ? sign : a.name < b.name ? -1 : 1);
  const columns = GROUPS.filter(([id]) => !foreign || id === 'name' || id === 'bytes'), most = list.reduce((m, g) => Math.max(m, g.ns), 0) || 1, large = list.reduce((m, g) => Math.max(m, g.bytes), 0) || 1;
  $('groupcolumns').innerHTML = columns.map(([id, text, cls]) => `<th scope="col" class="${cls}"${order.key === id ? ` aria-sort="${order.down ? 'descending' : 'ascending'}"` : ''}><button data-sort="${id}">${text}</button></th>`).join('');
  const bar = (part, colour) => `<span class="meter"><i style="width:${part * 100}%;background:var(${colour})"></i></span>`;
  const cell = {name: g => `<td class="mono" title="${html(g.name)}">${html(g.name)}</td>`, ns: g => `<td class="num"${g.again ? ` title="${span(g.again)} of it recomputing"` : ''}>${g.count ? bar(g.ns / most, '--accent') + span(g.ns) : ''}</td>`,
    share: g => `<td class="num soft m">${g.count ? percent(g.share) : ''}</td>`, count: g => `<td class="num soft m">${g.count || ''}</td>`, flops: g => `<td class="num soft m">${g.flops ? si(g.flops) : ''}</td>`, ceiling: g => `<td class="num soft m">${g.ceiling ? percent(g.ceiling) : ''}</td>`,
    bytes: g => `<td class="num">${g.bytes ? bar(g.bytes / large, '--c4') + size(g.bytes) : ''}</td>`};
  $('grouprows').innerHTML = list.slice(0, cap).map(g => `<tr>${columns.map(([id]) => cell[id](g)).join('')}</tr>`).join('');
  const hidden = list.slice(cap);
  $('groupfoot').innerHTML = foreign ? `${whole(list.length)} places allocated what is alive at the peak.` : `<b>${whole(list.length)}</b> ${grouping === 'layer' ? 'layers' : 'kinds'}, <b>${span(plan.time[plan.ops])}</b> in all${plan.timed ? '' : ', predicted'}.` + (hidden.length ? ` ${whole(hidden.length)} rows are not shown: ${span(hidden.reduce((t, g) => t + g.ns, 0))}, ${size(hidden.reduce((t, g) => t + g.bytes, 0))}.` : '');
  $('bylayer').setAttribute('aria-pressed', grouping === 'layer'); $('bykind').setAttribute('aria-pressed', grouping === 'kind');
  $('bylayer').hidden = $('bykind').hidden = foreign;
  $('groups').textContent = foreign ? 'By place of allocation' : 'By layer and op';
}

// --- the sum, planned and measured
function showParts() {
  const p = plan, v = p.parts, h = p.head, seen = h.measured_peak_bytes > 0, rows = [];
  $('partcard').hidden = !v.length;
  let planned = 0, measured = 0;
  for (let i = 0; i < v.length; i++) {
    planned += v.planned_bytes[i]; measured += v.measured_bytes[i];
    rows.push(`<tr><td>${key(v.category[i])} ${html(p.text(v.name[i]))}</td><td class="num">${whole(v.planned_bytes[i])}</td>${seen ? `<td class="num">${whole(v.measured_bytes[i])}</td>` : ''}</tr>`);
    if (v.note[i]) rows.push(`<tr class="note"><td colspan="3" class="soft">${html(p.text(v.note[i]))}</td></tr>`);
  }
  const ok = (a, b) => a === b ? '<span class="ok">✓</span> ' : '';
  rows.push(`<tr class="total"><td>peak</td><td class="num">${ok(planned, p.peak)}${whole(planned)}</td>${seen ? `<td class="num">${ok(measured, h.measured_peak_bytes)}${whole(measured)}</td>` : ''}</tr>`);
  if (seen) rows.push(`<tr><td class="soft">${html(h.held_by || 'reported by the system')}</td><td></td><td class="num soft">${whole(h.measured_peak_bytes)}</td></tr>`);
  const a = p.agree();
  if (a.ops) rows.push(`<tr><td colspan="3" id="agreement">${a.ops === a.equal ? '<span class="ok">✓</span> ' : ''}in use in the arena, measured op by op: as planned at ${a.ops === a.equal ? 'all' : whole(a.equal) + ' of'} ${whole(a.ops)} ops, to the byte${a.first < 0 ? '' : `; first at op ${a.first} (${html(p.op(a.first))}) ${whole(p.step.live_bytes[a.first])} instead of ${whole(p.asked[a.first])}`}</td></tr>`);
  $('partcolumns').innerHTML = `<th scope="col">bytes at the peak</th><th scope="col" class="num">planned</th>${seen ? '<th scope="col" class="num">measured</th>' : ''}`;
  $('partrows').innerHTML = rows.join('');
  showSteps();
}
/* Steps of a run: how long each took, as bars. */
function showSteps() {
  const v = plan.steps, n = v.length, W = 356, H = 84;
  $('stepchart').innerHTML = '';
  if (n < 2) return;
  let most = 0;
  for (let i = 0; i < n; i++) most = Math.max(most, v.end_ns[i] - v.begin_ns[i]);
  let out = `<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="Time of ${n} steps, at most ${span(most)}"><text x="16" y="12">time of ${whole(n)} steps, at most ${span(most)}</text>`;
  const many = Math.min(n, 300);
  for (let i = 0; i < many; i++) { const k = Math.floor(i * n / many), ns = v.end_ns[k] - v.begin_ns[k], t = ns / most * (H - 26), w = (W - 32) / many; out += `<rect x="${16 + i * w}" y="${H - 4 - t}" width="${Math.max(.5, w - (w > 3 ? 1 : 0))}" height="${t}" fill="var(--accent)"><title>step ${whole(v.number[k])}: ${span(ns)}</title></rect>`; }
  $('stepchart').innerHTML = out + '</svg>';
}

// --- the curve, small enough for SVG
function showCurve() {
  const p = plan, h = p.head, v = p.curve, W = 356, H = 244, l = 50, r = 16, t = 22, b = 40;
  const pts = Array.from({length: v.length}, (_, i) => [v.budget_bytes[i], v.peak_bytes[i], v.time_ratio[i], v.recomputed_ops[i], v.micro_batches[i]]).sort((a, b) => a[0] - b[0]);
  $('curvecard').hidden = !pts.length;
  if (!pts.length) return;
  const here = p.budget || p.peak;
  const x0 = Math.max(0, p.minimum - (Math.max(p.unconstrained, pts[pts.length - 1][0]) - p.minimum) * .085), x1 = Math.max(p.unconstrained, pts[pts.length - 1][0]) * 1.03, top = Math.max(...pts.map(q => q[2]), h.time_ratio), y1 = 1 + (top - 1) * 1.12 + .02;
  const x = v => l + (v - x0) / (x1 - x0) * (W - l - r), y = v => H - b - (v - .97) / (y1 - .97) * (H - b - t);
  const raw = (y1 - 1) / 4, by = [.01, .02, .05, .1, .2, .25, .5, 1, 2, 5, 10].find(k => k >= raw) || 10;
  let out = `<svg viewBox="0 0 ${W} ${H}" role="img" aria-label="Step time against budget, from ${size(pts[0][0])} at ${pts[0][2].toFixed(2)} times to ${size(pts[pts.length - 1][0])} at ${pts[pts.length - 1][2].toFixed(2)} times the unconstrained step">`;
  out += `<rect x="${l}" y="${t}" width="${x(p.minimum) - l}" height="${H - b - t}" fill="var(--bad)" opacity=".1"/>`;
  for (let v = 1; v <= y1; v += by) out += `<line x1="${l}" x2="${W - r}" y1="${y(v)}" y2="${y(v)}" stroke="var(--grid)"/><text x="${l - 8}" y="${y(v) + 4}" text-anchor="end">${v.toFixed(by < .1 ? 2 : by === .25 ? 2 : 1)}×</text>`;
  const {list, text} = ticks(x0, x1, 6);
  for (const v of list) out += `<line x1="${x(v)}" x2="${x(v)}" y1="${H - b}" y2="${H - b + 4}" stroke="var(--faint)"/><text x="${x(v)}" y="${H - b + 17}" text-anchor="middle">${text(v)}</text>`;
  out += `<line x1="${l}" x2="${W - r}" y1="${H - b}" y2="${H - b}" stroke="var(--line)"/><line x1="${x(p.minimum)}" x2="${x(p.minimum)}" y1="${t}" y2="${H - b}" stroke="var(--bad)" stroke-dasharray="5 4"/>`;
  out += `<text transform="translate(${x(p.minimum) - 8} ${H - b - 8}) rotate(-90)" style="fill:var(--bad);stroke:none">minimum ${size(p.minimum)}</text>`;
  out += `<polyline points="${pts.map(q => `${x(q[0])},${y(q[2])}`).join(' ')}" fill="none" stroke="var(--accent)" stroke-width="2" stroke-linejoin="round"/>`;
  for (const q of pts) out += `<circle cx="${x(q[0])}" cy="${y(q[2])}" r="3.5" fill="var(--card)" stroke="var(--accent)" stroke-width="1.8"><title>${size(q[0])}: ${q[2].toFixed(2)}×, ${q[3]} ops recomputed, ${q[4]} micro-batch${q[4] > 1 ? 'es' : ''}</title></circle>`;
  const cx = x(Math.min(here, x1)), cy = y(h.time_ratio), flip = cx > W - 120;
  out += `<line x1="${cx}" x2="${cx}" y1="${cy}" y2="${H - b}" stroke="var(--ink)" stroke-dasharray="2 3"/><rect x="${cx - 5}" y="${cy - 5}" width="10" height="10" transform="rotate(45 ${cx} ${cy})" fill="var(--ink)" stroke="var(--card)" stroke-width="2"/>`;
  out += `<text class="now" x="${flip ? cx - 12 : cx + 12}" y="${cy - 8}" text-anchor="${flip ? 'end' : 'start'}">this plan, ${h.time_ratio.toFixed(2)}×</text><text x="${l}" y="${12}">step time</text><text x="${W - r}" y="${H - 4}" text-anchor="end">budget</text></svg>`;
  $('curve').innerHTML = out;
  const all = [...pts.map(q => [...q, false]), [here, p.peak, h.time_ratio, h.recomputed_ops, h.micro_batches, true]].sort((a, b) => b[0] - a[0]).filter((q, i, a) => q[5] || !a.some(o => o[5] && Math.abs(o[0] - q[0]) < o[0] * .002));
  $('choices').innerHTML = all.map(q => `<tr class="${q[5] ? 'now' : ''}"><td>${q[5] ? '<span class="hidden">this plan </span>◆ ' : ''}${size(q[0])}</td><td>${q[2].toFixed(2)}×</td><td>${whole(q[3])} ops</td><td>${q[4]}</td></tr>`).join('');
}

