// ---- many rectangles, one image
/* Runs in a worker.  Exact coverage of every pixel by every class: each rectangle adds its four corners to a table of
   differences, whatever its size, and two running sums make the picture.  A pixel takes the colour of the class that
   covers most of it, and is as strong as it is covered.  Nothing is dropped.  The tables stay for the next tile. */
function painter() {
  let c, groups, axis = {}, room = {};
  const lower = (a, x, from, to) => { while (from < to) { const mid = (from + to) >>> 1; if (a[mid] < x) from = mid + 1; else to = mid; } return from; };
  onmessage = async ({data: m}) => {
    if (m.column) { c = m.column; groups = m.groups; axis = m.axis; return; }
    const {x0, y0, W, H} = m, x1 = x0 + W * m.ux, y1 = y0 + H * m.uy, X = axis[m.axis], row = W + 2, cells = row * (H + 2);
    const sx = 1 / m.ux, sy = 1 / m.uy;
    const s0 = Math.max(0, lower(X, x0, 0, X.length) - 1), s1 = Math.min(X.length - 1, lower(X, x1, 0, X.length));
    if (room.cells !== cells) room = {cells, who: new Uint8Array(cells), ...Object.fromEntries(['best', 'all', 'edge', 'dot'].map(name => [name, new Float32Array(cells)]))};
    const {best, all, who, edge, dot} = room;
    best.fill(0); all.fill(0);
    for (let kind = 1; kind < 9; kind++) {
      let any = false;
      for (const g of groups) {
        if (g.kind !== kind) continue;
        const from = lower(c.birth, s0 - g.longest + 1, g.from, g.to), to = lower(c.birth, s1, from, g.to);
        for (let i = from; i < to; i++) {
          if (c.death[i] <= s0 || c.offset[i] >= y1 || c.offset[i] + c.bytes[i] <= y0) continue;
          let u0 = (X[c.birth[i]] - x0) * sx, u1 = (X[c.death[i]] - x0) * sx;
          let v0 = (y1 - c.offset[i] - c.bytes[i]) * sy, v1 = (y1 - c.offset[i]) * sy;
          if (u0 < 0) u0 = 0; if (u1 > W) u1 = W; if (v0 < 0) v0 = 0; if (v1 > H) v1 = H;
          if (u0 >= u1 || v0 >= v1) continue;
          const i0 = u0 | 0, i1 = u1 | 0, j0 = v0 | 0, j1 = v1 | 0;
          any = true;
          if (i0 === i1 && j0 === j1) { dot[j0 * row + i0] += (u1 - u0) * (v1 - v0); continue; }
          const a0 = u0 - i0, a1 = u1 - i1, b0 = v0 - j0, b1 = v1 - j1;
          let p = j0 * row;
          edge[p + i0] += (1 - a0) * (1 - b0); edge[p + i0 + 1] += a0 * (1 - b0); edge[p + i1] -= (1 - a1) * (1 - b0); edge[p + i1 + 1] -= a1 * (1 - b0);
          p += row;
          edge[p + i0] += (1 - a0) * b0; edge[p + i0 + 1] += a0 * b0; edge[p + i1] -= (1 - a1) * b0; edge[p + i1 + 1] -= a1 * b0;
          p = j1 * row;
          edge[p + i0] -= (1 - a0) * (1 - b1); edge[p + i0 + 1] -= a0 * (1 - b1); edge[p + i1] += (1 - a1) * (1 - b1); edge[p + i1 + 1] += a1 * (1 - b1);
          p += row;
          edge[p + i0] -= (1 - a0) * b1; edge[p + i0 + 1] -= a0 * b1; edge[p + i1] += (1 - a1) * b1; edge[p + i1 + 1] += a1 * b1;
        }
      }
      if (!any) continue;
      for (let j = 0; j < H; j++) {
        let sum = 0;
        for (let p = j * row, end = p + W, up = p - row; p < end; p++, up++) {
          sum += edge[p];
          const down = edge[p] = sum + (j ? edge[up] : 0), share = down + dot[p];
          if (share > 1e-5) { all[p] += share; if (share > best[p]) { best[p] = share; who[p] = kind; } }
        }
      }
      edge.fill(0); dot.fill(0);
    }
    const image = new ImageData(W, H), pixel = new Uint32Array(image.data.buffer).fill(m.well | 0xff000000);
    const mix = (a, b, t, by) => Math.round((a >> by & 255) * (1 - t) + (b >> by & 255) * t) << by;
    for (let j = 0; j < H; j++)
      for (let i = 0, p = j * row, q = j * W; i < W; i++, p++, q++)
        if (all[p] > 1e-5) {  // faint things stay visible
          const share = Math.min(1, all[p]), strength = Math.max(.16, share * (2 - share)) * m.strength[who[p]], to = m.colour[who[p]];
          pixel[q] = strength === 1 ? to | 0xff000000 : mix(m.well, to, strength, 0) | mix(m.well, to, strength, 8) | mix(m.well, to, strength, 16) | 0xff000000;
        }
    const bitmap = await createImageBitmap(image);
    postMessage({id: m.id, bitmap}, [bitmap]);
  };
}

