'use strict';
performance.mark('script');

// ---- helpers
const $ = id => document.getElementById(id);
const html = text => String(text).replace(/[&<>"]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'}[c]));
const nobreak = text => text.replace(/ /g, '\u00a0');
const breaks = name => html(name).replace(/[._]/g, '$&<wbr>');
const clamp = (x, a, b) => x < a ? a : x > b ? b : x;
const whole = x => Math.round(x).toLocaleString('en-US');
const query = new URLSearchParams(location.search);

function size(bytes) {
  if (bytes < 1024) return bytes + ' B';
  let i = -1;
  do { bytes /= 1024; i++; } while (bytes >= 1000 && i < 4);
  return bytes.toFixed(bytes < 10 ? 2 : i ? 1 : 0) + ' ' + ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'][i];
}
const tidy = bytes => size(bytes).replace(/\.0+ /, ' ');  // in sentences: 900 MiB, not 900.0
function span(ns) {
  for (const [unit, of] of [['s', 1e9], ['ms', 1e6], ['µs', 1e3]])
    if (ns >= of) return +(ns / of).toPrecision(3) + ' ' + unit;
  return Math.round(ns) + ' ns';
}
/* first place in a[from..to) whose value is not below x */
function lower(a, x, from, to) {
  while (from < to) { const mid = (from + to) >>> 1; if (a[mid] < x) from = mid + 1; else to = mid; }
  return from;
}

// ---- data
/* Categories as in recording.h.  Classes are the layers of the pictures: the categories, and recomputed activations apart. */
const CATEGORY = ['runtime', 'parameters', 'optimizer state', 'inputs', 'activations', 'gradients', 'workspaces', 'unattributed'];
const LETTER = 'RPOIAGWU', RECOMPUTED = 1, PARAMETER_GRADIENT = 2, AGAIN = 8, KINDS = 9;
const LAYERS = [0, 1, 2, 7, 3, 4, AGAIN, 5, 6];  // bottom to top in the upper chart
const SHOWN = [6, 5, 4, 3, 7, 2, 1, 0];          // categories, as the legend lists them
const PHASES = ['forward', 'backward', 'update'], WHAT = ['run', 'copy out', 'copy in', 'wait', 'allocation', 'free'];

async function decode(element) {
  const text = element.textContent.trim();
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), c => c.charCodeAt(0));
  performance.mark('decoded');
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  performance.mark('unpacked');
  return new Plan(read(bytes));
}

/* Columns by type.  Those that are zero throughout are not in the page. */
const TABLES = {
  ops: [[Uint32Array, 'name kind layer'], [Uint8Array, 'phase what again graph'], [Float64Array, 'begin_ns end_ns measured_begin measured_end flops bytes held_bytes live_bytes']],
  bufs: [[Uint32Array, 'name shape value source birth death'], [Uint8Array, 'category flags'], [Float64Array, 'offset bytes asked_bytes']],
  part: [[Uint32Array, 'name note'], [Uint8Array, 'category'], [Float64Array, 'planned_bytes measured_bytes']],
  curv: [[Float64Array, 'budget_bytes peak_bytes recomputed_ops offloaded_bytes time_ratio'], [Uint32Array, 'micro_batches']],
  step: [[Float64Array, 'number begin_ns end_ns wait_ns device_ns loss held_bytes']]};

/* A file of docs/hrp-format.md: chunks; tables come in blocks of columns, which are put together here. */
function read(bytes) {
  const data = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), utf8 = new TextDecoder();
  const file = {head: {}, tables: {}, texts: [], truncated: true};
  const blocks = {};
  for (let at = 16; at + 24 <= bytes.length;) {
    const kind = utf8.decode(bytes.subarray(at, at + 4)), count = data.getUint32(at + 4, true), size = Number(data.getBigUint64(at + 8, true)), from = at + 24;
    if (from + size > bytes.length) break;
    at = from + Math.ceil(size / 8) * 8;
    if (kind === 'end ') { file.truncated = false; break; }
    if (kind === 'head') file.head = JSON.parse(utf8.decode(bytes.subarray(from, from + size)));
    else if (kind === 'text') { for (let i = 0, p = from + 4 * count; i < count; i++) { const n = data.getUint32(from + 4 * i, true); file.texts.push([p, n]); p += n; } }
    else (blocks[kind] = blocks[kind] || []).push({count, from});
  }
  for (const [kind, list] of Object.entries(blocks)) {
    const total = list.reduce((t, b) => t + b.count, 0), table = file.tables[kind.trim()] = {length: total};
    let done = 0;
    for (const {count, from} of list) {
      for (let c = 0, n = data.getUint32(from, true); c < n; c++) {
        const entry = from + 8 + 24 * c, name = utf8.decode(bytes.subarray(entry, entry + 16)).replace(/\0+$/, ''), type = data.getUint32(entry + 16, true), at = bytes.byteOffset + from + data.getUint32(entry + 20, true);
        const Kind = [0, Uint8Array, Uint32Array, Float64Array, Float64Array][type];
        if (!Kind) continue;
        const to = table[name] = table[name] || new Kind(total);
        if (type === 3) { const pair = new Uint32Array(bytes.buffer, at, 2 * count); for (let i = 0; i < count; i++) to[done + i] = pair[2 * i] + pair[2 * i + 1] * 4294967296; }
        else to.set(new Kind(bytes.buffer, at, count), done);
      }
      done += count;
    }
  }
  for (const [kind, table] of Object.entries(file.tables)) {
    table.zero = {};
    for (const [Kind, names] of TABLES[kind] || []) for (const name of names.split(' ')) if (!table[name]) { table[name] = new Kind(table.length); table.zero[name] = true; }
  }
  /* texts are decoded when they are shown: most never are */
  const known = [];
  file.text = i => { if (known[i] === undefined) { const t = file.texts[i]; known[i] = t ? utf8.decode(bytes.subarray(t[0], t[0] + t[1])) : ''; } return known[i]; };
  return file;
}

const scope = name => { const dot = name.lastIndexOf('.'); return dot < 0 ? name : name.slice(0, dot); };

class Plan {
  constructor(file) {
    const h = this.head = file.head, none = {length: 0, zero: {}};
    this.file = file; this.text = file.text;
    this.source = h.source; this.model = h.model || h.source || 'recording';
    this.fits = h.fits; this.budget = h.budget_bytes; this.peak = h.peak_bytes; this.minimum = h.minimum_bytes;
    this.unconstrained = h.unconstrained_bytes; this.runtime = h.runtime_bytes; this.arena = h.arena_bytes; this.peak_step = h.peak_op;
    this.step = file.tables.ops || none; this.column = file.tables.bufs || none;
    this.parts = file.tables.part || none; this.curve = file.tables.curv || none; this.steps = file.tables.step || none;
    this.ops = this.step.length; this.count = this.column.length;
    this.ceiling = {flops: h.flops_per_ns, bytes: h.bytes_per_ns};
    this.top = Math.max(this.budget, this.peak, h.measured_peak_bytes);
    this.sort();
    this.add();
    this.clock();
    this.stretch();
    this.order = new Float64Array(this.ops + 1);
    for (let i = 0; i <= this.ops; i++) this.order[i] = i;
  }

  /* Durations: measured where they were, else as planned; an axis of ops one after another. */
  clock() {
    const o = this.step, n = this.ops, time = this.time = new Float64Array(n + 1), took = this.took = new Float64Array(n);
    this.timed = false;
    for (let s = 0; s < n; s++) {
      const measured = o.measured_end[s] > 0;
      if (measured) this.timed = true;
      took[s] = measured ? o.measured_end[s] - o.measured_begin[s] : o.end_ns[s] - o.begin_ns[s];
      time[s + 1] = time[s] + took[s];
    }
    this.clocked = time[n] > 0;
  }

  /* Stretches of the axis: per run of a step, forward up to the first backward op, backward up to the last, then update. */
  stretch() {
    const o = this.step, names = (this.head.graphs || '').split(';');
    this.stretches = [];
    for (let from = 0; from < this.ops;) {
      let to = from;
      while (to < this.ops && o.graph[to] === o.graph[from]) to++;
      const back = s => o.phase[s] === 1 && !o.again[s] && o.what[s] === 0;
      let first = from, last = to - 1;
      while (first < to && !back(first)) first++;
      while (last >= first && !back(last)) last--;
      const prefix = o.graph[this.ops - 1] ? (names[o.graph[from]] || '') + ': ' : '';
      const cut = this.foreign() ? [from, to, to, to] : [from, first, last + 1, to];
      for (let p = 0; p < 3; p++) if (cut[p] < cut[p + 1]) this.stretches.push({from: cut[p], to: cut[p + 1], phase: p, label: prefix + (this.foreign() ? 'allocations and frees' : PHASES[p])});
      from = to;
    }
  }
  /* Allocations of another program: no ops, no phases. */
  foreign() { return this.ops > 0 && this.step.what[0] >= 4; }

  /* The index: buffers by class and octave of lifetime, by birth within.  All buffers that live during some ops lie in
     one short range per group, because a group's lifetimes differ by less than a factor of two. */
  sort() {
    const c = this.column, n = this.count, key = new Uint16Array(n), start = new Uint32Array(KINDS * 32 + 1);
    let sorted = true;  // as page_order.c writes them
    for (let i = 0; i < n; i++) {
      const kind = c.category[i] === 4 && c.flags[i] & RECOMPUTED ? AGAIN : c.category[i];
      key[i] = kind * 32 + (31 - Math.clz32(c.death[i] - c.birth[i] || 1));
      start[key[i] + 1]++;
      if (i && (key[i] < key[i - 1] || key[i] === key[i - 1] && c.birth[i] < c.birth[i - 1])) sorted = false;
    }
    for (let k = 0; k < KINDS * 32; k++) start[k + 1] += start[k];
    if (!sorted) this.permute(key, start);
    this.groups = [];
    for (let k = 0; k < KINDS * 32; k++)
      if (start[k] < start[k + 1]) this.groups.push({kind: k >> 5, longest: 2 * 2 ** (k & 31), from: start[k], to: start[k + 1]});
  }
  permute(key, start) {
    const c = this.column, n = this.count, next = start.slice(), place = new Uint32Array(n);
    for (let i = 0; i < n; i++) place[next[key[i]]++] = i;  // stable: births stay in order
    for (const name of Object.keys(c)) {
      if (name === 'length' || name === 'zero' || c.zero[name]) continue;
      const from = c[name], to = new from.constructor(n);
      for (let i = 0; i < n; i++) to[i] = from[place[i]];
      c[name] = to;
    }
  }

  /* Ranges [kind, from, to) that hold every buffer alive in ops s0 <= s < s1, and some others. */
  ranges(s0, s1) {
    const birth = this.column.birth, found = [];
    for (const g of this.groups) {
      const from = lower(birth, s0 - g.longest + 1, g.from, g.to), to = lower(birth, s1, from, g.to);
      if (from < to) found.push([g.kind, from, to]);
    }
    return found;
  }
  alive(s) {
    const {death} = this.column, found = [];
    for (const [, from, to] of this.ranges(s, s + 1)) for (let i = from; i < to; i++) if (death[i] > s) found.push(i);
    return found;
  }
  hit(s, offset) {
    const c = this.column;
    for (const [, from, to] of this.ranges(s, s + 1))
      for (let i = from; i < to; i++) if (c.death[i] > s && c.offset[i] <= offset && offset < c.offset[i] + c.bytes[i]) return i;
    return -1;
  }

  /* Bytes alive per op and class, and the op with most in each block of 64 so that no zoom level can miss a peak. */
  add() {
    const c = this.column, ops = this.ops;
    this.live = Array.from({length: KINDS}, () => new Float64Array(ops + 1));
    for (const g of this.groups) {
      const live = this.live[g.kind];
      for (let i = g.from; i < g.to; i++) { live[c.birth[i]] += c.bytes[i]; live[Math.min(c.death[i], ops)] -= c.bytes[i]; }
    }
    const total = this.total = new Float64Array(ops + 1).fill(this.runtime);
    for (let k = 0; k < KINDS; k++) {
      const live = this.live[k];
      for (let s = 0, sum = 0; s < ops; s++) { sum += live[s]; live[s] = sum; total[s] += sum; }
    }
    this.live[0].fill(this.runtime);
    const most = new Uint32Array(Math.ceil(ops / 64));  // complete before largest() may look at it
    for (let b = 0; b < most.length; b++) most[b] = this.largest(b * 64, Math.min(ops, b * 64 + 64));
    this.most = most;
  }
  largest(from, to) {
    const total = this.total;
    let best = from;
    for (let s = from; s < to; s++) {
      if (this.most && (s & 63) === 0 && s + 64 <= to) { if (total[this.most[s >> 6]] > total[best]) best = this.most[s >> 6]; s += 63; }
      else if (total[s] > total[best]) best = s;
    }
    return best;
  }
  /* Bytes in use in the arena, op by op: planned (as asked for, before rounding up) beside measured. */
  agree() {
    const c = this.column, n = this.ops, live = this.step.live_bytes, found = {ops: 0, equal: 0, first: -1};
    if (!n || this.step.zero.live_bytes) return found;
    const planned = this.asked = new Float64Array(n + 1);
    for (let i = 0; i < this.count; i++) { const bytes = c.asked_bytes[i] || c.bytes[i]; planned[c.birth[i]] += bytes; planned[Math.min(c.death[i], n)] -= bytes; }
    for (let s = 0; s < n; s++) {
      if (s) planned[s] += planned[s - 1];
      if (!live[s]) continue;
      found.ops++;
      if (planned[s] === live[s]) found.equal++; else if (found.first < 0) found.first = s;
    }
    return found;
  }
  used(category, s) { return this.live[category][s] + (category === 4 ? this.live[AGAIN][s] : 0); }
  op(s) { return this.text(this.step.name[s]); }
  /* what an op is, in words */
  doing(s) { const o = this.step; return o.what[s] ? WHAT[o.what[s]] : (o.again[s] ? 'recomputed, ' : '') + PHASES[o.phase[s]]; }
  label(i) {
    const c = this.column, name = this.text(c.name[i]);
    return c.category[i] === 6 ? 'workspace of ' + name : c.flags[i] & PARAMETER_GRADIENT ? 'gradient of ' + name : name;
  }
}
