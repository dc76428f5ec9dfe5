// Randomised model of cluster lineage: Lease, term tokens, epochs, fences, a Store that is set back, functions that cache proofs.
//   node test/simulation/lineage/model.mjs --variant V1 --seeds 1-200000 [--on rule,…] [--off rule,…] [--only fault,…] [--first] ; node test/simulation/lineage/model.mjs --variant V1 --trace 17
// One seed = one schedule: a phase of faults, a quiet phase with the clone alive (I4), a quiet phase after it is gone (I3).
// Time is in seconds. Every remote call is one atomic step; between two steps a process may crash or stand still.
const RULES = {
  tok: 'resume an epoch only if the Store\'s token is in the own Lease\'s list', pend: 'the Lease keeps tokens whose openFence was not answered',
  still: 'a foreign epoch is replaced only after its checkpoint stood still for 60 s', four: 'four new epochs in ten minutes stop creates and deletes',
  fcheck: 'a function reads its Lease before its first API write in an unseen (epoch, fence)', final: 'no SUSPECT only after a returned Lease whose final checkpoint the Store holds',
  caught: 'after an unproven hand-over a lane is caught up when W has passed the fence', live: 'first creates/deletes in an epoch, after SUSPECT and after an unproven hand-over on a live list',
  stat: 'live status.replicas above the pods seen: list first',
  // repairs
  rot: 'the token moves with each Lease renewal and each checkpoint', self: 'a leader that finds a token list that it did not write ends its term', memory: 'a leader recognises tokens of its own term',
  cas: 'replacing an epoch compares token and checkpoint as well as the epoch', own: 'the 60 s are counted by the observer\'s clock, not by the Store\'s TIME', first: 'the Lease is read before anything is read live or written to the Store',
  bind: 'registerIntents and write-through compare the fence with that of take', reproof: 'a proof lasts 10 s and ends with a connection error', erase: 'the acquiring write erases the final checkpoint',
  fence: 'each new fence needs a live list', auto: 'the stop ends when fewer than four epochs are in ten minutes', names: 'names come from a counter in the Store', statdel: 'status.replicas below the pods seen: list before deletes',
  ring: 'the Lease keeps its last eight terms', member: 'functions ask for membership, not equality', always: 'a create or delete is always decided on a live list', lapse: 'a run that outlives 12 s starts no write', ghost: 'the write-through of a live list takes away the cached pods that the list lacks', seen: 'a function that saw a greater checkpoint of the epoch marks SUSPECT', clamp: 'a time of the Store further ahead than its own bound counts as now', ahead: 'a proven function whose live owner is older than the cached one asks for a new epoch', wt: 'a cached version above the leader\'s stream for 15 s opens a new epoch', past: 'a live list counts as a mark only when W has passed its version', empty: 'a leader that finds its history gone back empties the list of its Lease', dl: 'deletes are always decided on a live list', clean: 'a term that sent no openFence leaves the list', born: 'openEpoch stores the term that opens the epoch', proof: 'a leader that raises its own fence proves by its last answered checkpoint that the Store was not set back',
  rare: 'checkpoints every 3 s and renewals every 4 s, as of quiet clusters; otherwise 1 s and 2 s',
  keep: 'a deleted Lease is made again with the terms that this process saw in it last, the newest one count further',
};
const PROP = 'tok,pend,still,four,fcheck,final,caught,live,stat,lapse,clamp';
const FIX = PROP + ',rot,self,memory,cas,own,first,bind,reproof,erase,fence,auto,statdel,ring,member,ghost,seen,clean,empty,wt,past,born,proof';
export const VARIANTS = { V0: 'lapse', V1: PROP, R: FIX, RN: FIX + ',names', RD: FIX + ',names,dl', RA: FIX + ',names,always', RK: FIX + ',names,keep', RQ: FIX + ',names,keep,rare' };
for (const r of ['tok', 'pend', 'still', 'four', 'fcheck', 'final', 'caught', 'live', 'stat', 'clamp']) VARIANTS['V1-' + r] = PROP.split(',').filter(x => x !== r).join();
for (const r of ['pend', 'still', 'four', 'fcheck', 'final', 'caught', 'live', 'stat', 'rot', 'self', 'memory', 'cas', 'own', 'first', 'bind', 'reproof', 'erase', 'fence', 'auto', 'statdel', 'ring', 'member', 'names', 'ghost', 'seen', 'clean', 'empty', 'clamp', 'wt', 'past', 'born', 'proof', 'tok', 'lapse'])
  VARIANTS['RN-' + r] = VARIANTS.RN.split(',').filter(x => x !== r).join();

const LEASE = 15, DEADLINE = 10, STILL = 60, SILENT = 60, LAND = 15, OP = 20, RUN = 25;
export function run(seed, rules, trace, only) {
  const V = {}; for (const r of rules) V[r] = true;
  const CHECK = V.rare ? 3 : 1, RENEW = V.rare ? 4 : 2;
  let s = (seed * 2654435761 + 97) >>> 0;
  const rnd = () => { s = (s + 0x6D2B79F5) >>> 0; let t = Math.imul(s ^ (s >>> 15), s | 1); t ^= t + Math.imul(t ^ (t >>> 7), t | 61); return ((t ^ (t >>> 14)) >>> 0) / 4294967296 };
  const R = n => (rnd() * n) | 0, chance = p => rnd() < p, pick = a => a[R(a.length)];
  let now = 0, ids = 0, quiet = false, lastFault = 0; const viol = {};
  const log = trace ? (...a) => console.log(String(now).padStart(5), ...a) : null;
  const bad = (id, why) => { if (twin && V.rot) id += 'y'; else if (ztwin && V.rot) id += 'z'; if (!viol[id]) { viol[id] = `${now}s ${why}`; if (log) log('!!', id, why) } };
  const mode = { clone: chance(.5), restore: chance(.35), store: chance(.5), cfun: chance(.4), lossy: chance(.25), adopt: chance(.1), clock: chance(.2), down: chance(.3), two: chance(.5), hand: chance(.5), crash: chance(.6), msgs: chance(.3) };
  if (only) for (const k of ['clone', 'restore', 'store', 'cfun', 'lossy', 'adopt', 'clock', 'down', 'two', 'hand', 'crash', 'msgs']) mode[k] = only.includes(k);

  mode.gone = only ? only.includes('gone') : !!(V.keep || V.gone) && seed % 2 === 0; // drawn without the generator: other schedules stay as they are

  // ---- clusters: etcd with its own history ----
  const N0 = 2 + R(2);
  const P = { name: 'P', rev: 10, comp: 0, up: true, upAt: 0, brk: 0, lease: null, rs: { ex: !mode.adopt, rv: 5, gen: 1, n: N0, st: 0, stRv: 5 }, pods: new Map(), ev: [] };
  let C = null, twin = false, ztwin = false; const backups = []; let restoredAt = -1e9, nHist = [{ t: 0, n: N0 }], userDel = 0, made = 0, alarm = 0, unknown = [], late = [], ourDel = [];
  const surplus = [];
  const note = () => { if (P.rs.ex) { surplus.push({ t: now, v: P.pods.size }); if (surplus.length > 60) surplus.splice(0, 20) } };
  const copy = c => ({ ...c, lease: c.lease && { ...c.lease, list: c.lease.list.slice() }, rs: { ...c.rs }, pods: new Map(c.pods), ev: c.ev.slice() });
  const emit = (c, ln, ty, name, o) => { c.rev++; const e = { rv: c.rev, ln, ty, name, o }; c.ev.push(e); return c.rev };
  const putPod = (c, name) => { const o = { uid: ++ids, rv: c.rev + 1 }; c.pods.set(name, o); emit(c, 1, 'A', name, o); if (c === P) note(); return o };
  const delPod = (c, name) => { const o = c.pods.get(name); c.pods.delete(name); emit(c, 1, 'D', name, o); if (c === P) note() };
  const setRs = (c, f) => { f(c.rs); c.rs.rv = emit(c, 0, 'M', 'rs', null); c.ev[c.ev.length - 1].o = { ...c.rs } };
  if (mode.adopt) for (let i = 0; i < N0; i++) putPod(P, 'orphan' + i);
  const nMax = () => { let m = P.rs.n; for (let i = nHist.length - 1; i >= 0; i--) { m = Math.max(m, nHist[i].n); if (nHist[i].t < now - 40) break } return m };
  const nMin = () => { let m = P.rs.n; for (let i = nHist.length - 1; i >= 0; i--) { m = Math.min(m, nHist[i].n); if (nHist[i].t < now - 100) break } return m };

  // ---- Store (rewinds replace S); harness-only fields: epAt, back ----
  const fresh = () => ({ ep: null, eps: [], stop: false, m: [{ f: 0 }, { f: 0 }], l: [0, 1].map(lane), rs: null, pods: new Map(), tomb: new Map(), ops: new Map(), run: null, mark: '', ctr: 0 });
  const lane = () => ({ last: 0, W: 0, ts: -1e9, hole: 0, held: null, need: 0 });
  const dup = x => ({ ...x, ep: x.ep && { ...x.ep }, eps: x.eps.slice(), m: x.m.map(y => ({ ...y })), l: x.l.map(y => ({ ...y })), pods: new Map(x.pods), tomb: new Map(x.tomb), ops: new Map(x.ops) });
  let S = fresh(), off = 0, back = 0, storeBack = -1e9; const shots = [];
  const clk = () => now + off, ahead = (t, d) => t > clk() && !(V.clamp && t - clk() > d), Q = [[], []];
  const suspect = why => { for (const m of S.m) { if (m.state === 'SYNCED') m.state = 'SUSPECT'; m.old = m.gen } S.run = null; S.susp = (S.susp ?? 0) + 1; S.mark = ''; back = 0; if (log) log('store SUSPECT', why) };
  const closed = () => {
    if (!S.ep) return 'no epoch'; if (S.ep.dmg) return 'ahead';
    if (V.four && (V.auto ? S.eps.filter(t => clk() - t < 600 && clk() >= t).length >= 4 : S.stop)) return 'four epochs';
    for (let i = 0; i < 2; i++) { const m = S.m[i], l = S.l[i]; if (m.state !== 'SYNCED') return 'state'; if (clk() - l.ts > SILENT) return 'silent'; if (l.hole && clk() - l.hole > 2) return 'hole'; if (V.caught && l.need && l.W < l.need) return 'behind' }
    return '' };
  const openEpoch = (w, over) => { // compare-and-set
    if (S.ep && !over) return false;
    if (S.ep && (S.ep.id !== over.id || (V.cas && (S.ep.tok !== over.tok || S.ep.beat !== over.beat || S.ep.bf !== over.bf)))) return false;
    const replaced = !!S.ep, eps = S.eps, stop = S.stop; S = fresh(); S.eps = eps; S.stop = stop; w.sent ||= !!V.born; S.ep = { id: 'e' + ++ids, tok: V.born ? w.tok : '', beat: 0, bf: 0, at: clk(), by: w.cl.name, epAt: now }; back = 0;
    S.eps.push(clk()); if (V.four && S.eps.filter(t => clk() - t < 600).length >= 4) { S.stop = true; alarm = 1 } if (log) log('epoch', S.ep.id, 'by', w.id, replaced ? 'over ' + over.id : ''); return true };

  // ---- tokens: "term.count"; a list entry allows every count up to its own ----
  const T = t => t.slice(0, t.indexOf('.')), N = t => +t.slice(t.indexOf('.') + 1);
  const inList = (list, tok) => list.some(e => T(e) === T(tok) && N(tok) <= N(e));

  // ---- watchers ----
  const mkW = (cl, id) => ({ cl, id, ph: 'idle', sleep: 0, seenRv: -1, seenAt: 0, obs: null, restartAt: 0 });
  const reset = w => { const { cl, id, n } = w; for (const k of Object.keys(w)) delete w[k]; Object.assign(w, mkW(cl, id)); w.id = id.split('/')[0] + '/' + ++ids; w.restartAt = now + (quiet ? 2 : R(8)) };
  const alive = c => c.up && now >= c.upAt;
  const writeLease = (w, fn) => { const c = w.cl; if (!c.lease) c.lease = { rv: 0, holder: '', list: [], fin: null }; fn(c.lease); w.saw = c.lease.list.slice(); c.lease.rv = ++c.rev; return c.lease.rv };
  const leaseList = (w, prior) => { const l = prior.slice(); l.push(w.tok); return V.ring ? l.slice(-8) : V.pend ? l.slice(-6) : [prior[0] ?? w.tok, w.tok] };
  const raise = w => { // one Lease write with a fresh term; false: lost
    if (!alive(w.cl)) return false; const L = w.cl.lease;
    if (!L || L.holder !== w.id) { lose(w, 'held by another'); return false }
    if (V.self && w.wrote && L.list.join() !== w.wrote) { w.regress = true }
    w.mem = V.proof && !w.regress && w.conf && w.answered > 0 ? { tok: w.conf, f: w.fence, b: w.answered } : null;
    const prior = V.empty && w.regress ? [] : w.conf ? [...L.list.filter(e => T(e) !== T(w.conf)), w.conf] : L.list; w.tok = 't' + ++ids + '.0'; w.mine.push(w.tok); w.list = V.ring ? leaseList(w, prior) : w.conf && V.pend && !(V.empty && w.regress) ? [w.conf, w.tok] : leaseList(w, prior);
    w.fence = writeLease(w, l => { l.list = w.list.slice(); l.fin = V.erase ? null : l.fin }); w.wrote = w.list.join(); w.renewed = now; w.unproven = true; w.prior = null; w.regress = false; return true };
  const lose = (w, why) => { if (log) log(w.id, 'not leading:', why); const k = w.id; w.ph = 'idle'; w.obs = null; w.replace = null; w.regress = false; w.restartAt = now + 1 };
  const release = w => { if (alive(w.cl) && w.cl.lease?.holder === w.id) writeLease(w, l => { l.holder = ''; l.fin = w.fin ?? (V.erase ? null : l.fin); l.void = w.sent ? '' : w.tok }); w.ph = 'idle'; w.restartAt = now + 3 };
  const newTerm = (w, replace) => { w.replace = replace; w.ph = 'raise' };
  function watcher(w) {
    if (now < w.sleep || now < w.restartAt) return;
    const c = w.cl;
    if (w.ph !== 'idle' && now - w.renewed > DEADLINE) { lose(w, 'not renewed'); return }
    switch (w.ph) {
      case 'idle': {
        if (!alive(c)) return; const L = c.lease;
        if (L && L.rv !== w.seenRv) { w.seenRv = L.rv; w.seenAt = now; w.saw = L.list.slice() }
        if (L && L.holder !== '' && L.holder !== w.id && now - w.seenAt < LEASE) return;
        w.prior = L && L.holder === '' && L.fin ? L.fin : null; w.proofFin = w.prior;
        const before = L ? (V.clean && L.void ? L.list.filter(e => e !== L.void) : L.list) : V.keep && w.saw ? w.saw.map((e, i, all) => i < all.length - 1 ? e : T(e) + '.' + (N(e) + 1)) : []; w.sent = false; w.tok = 't' + ++ids + '.0'; w.conf = ''; w.mine = [w.tok]; w.list = leaseList(w, before);
        w.fence = writeLease(w, l => { l.holder = w.id; l.list = w.list.slice(); if (V.erase) l.fin = null }); w.wrote = w.list.join(); w.renewed = now; w.ph = 'ep'; w.obs = null; w.regress = false; w.fin = null; w.mem = null; w.answered = 0; w.unproven = !w.prior; w.replace = null; w.began = now;
        if (log) log(w.id, 'Lease', w.fence, w.list.join(), 'final', JSON.stringify(w.prior)); return }
      case 'raise': if (raise(w)) { if (log) log(w.id, 'raised', w.fence, w.list.join()); w.ph = 'ep' } return;
      case 'ep': {
        if (now - w.renewed >= RENEW && !renew(w)) return;
        if (!S.ep) { openEpoch(w, null); w.mayTake = S.ep?.id; return }
        const e = S.ep;
        if (V.tok) {
          const ours = e.tok === '' ? e.id === w.mayTake : inList(w.list, e.tok) || (V.memory && w.mine.some(x => T(x) === T(e.tok)));
          if (!ours) { // foreign
            if (c === P) alarm = Math.max(alarm, 1);
            const beat = e.id + e.tok + e.bf + '/' + e.beat;
            if (!V.still) { w.over = { ...e }; w.ph = 'open'; return }
            if (V.own ? !w.obs : false) { w.obs = { beat, at: now }; return }
            if (V.own && w.obs.beat !== beat) { if (log) log(w.id, 'foreign epoch moves: exits', e.id); release(w); return }
            if ((V.own ? now - w.obs.at : clk() - e.at) < STILL) { if (!V.own && chance(.3)) release(w); return }
            w.over = { ...e }; w.ph = 'open'; return }
        }
        if (w.replace === e.id) { w.over = { ...e }; w.ph = 'open'; return }
        w.replace = null; w.epoch = e.id; w.cas = e.tok; w.ln = 0; w.ph = 'fence'; w.obs = null; return }
      case 'open': { if (openEpoch(w, w.over)) { w.replace = null; w.mayTake = S.ep.id } w.ph = 'ep'; w.obs = null; return }
      case 'fence': {
        if (!S.ep || S.ep.id !== w.epoch) { w.ph = 'ep'; return }
        if (V.tok && S.ep.tok !== w.cas && S.ep.tok !== w.tok) { w.ph = 'ep'; return }
        const m = S.m[w.ln]; w.sent = true;
        if (m.f > w.fence) { // FENCED
          const stored = m.f; if (!raise(w)) return; if (w.fence < stored) { if (log) log(w.id, 'proves a regression', w.fence, '<', stored); w.replace = w.epoch; w.ph = 'ep' } else release(w); return }
        const first = w.ln === 0;
        if (V.tok) { if (first) { w.fits = S.ep.tok !== '' && w.prior && w.prior.tok === S.ep.tok && w.prior.beat === S.ep.bf + '/' + S.ep.beat || w.mem && T(S.ep.tok || 'x.0') === T(w.mem.tok) && N(S.ep.tok) >= N(w.mem.tok) && S.ep.bf === w.mem.f && S.ep.beat >= w.mem.b; w.mem = null; S.ep.tok = w.tok } }
        if (m.f < w.fence) { m.f = w.fence; const l = S.l[w.ln]; l.last = 0; l.hole = 0; l.held = null; l.need = 0;
          if (V.final && m.state === 'SYNCED' && !w.fits && !w.resuming) { m.state = 'SUSPECT'; m.old = m.gen; S.run = null; S.mark = ''; S.susp = (S.susp ?? 0) + 1; back = 0; l.need = w.fence;
            if (w.prior && !mode.store && !mode.restore && !mode.clone && !mode.clock) bad('I5', `orderly hand-over to ${w.id} was not accepted`) }
          else if (back === 1) back = 2; }
        if (++w.ln < 2) return;
        w.conf = w.tok; w.beat = 0; w.answered = 0; w.seq = [0, 0]; w.pos = S.l.map((l, i) => S.m[i].state === 'SYNCED' ? l.W : -1); w.start = true; w.brk = c.brk; w.ph = 'lead'; w.hb = [now, now]; w.ck = now; w.fits = false; w.prior = null;
        if (log) log(w.id, 'leads', w.epoch, 'fence', w.fence, 'tok', S.ep.tok, 'pos', w.pos.join()); return }
      case 'lead': {
        const k = R(3);
        if (k === 0 && now - w.renewed >= RENEW) { renew(w); return }
        if (k === 1 && now - w.ck >= CHECK) return checkpoint(w);
        return stream(w) } } }
  function renew(w) {
    const c = w.cl; if (!alive(c)) return false; const L = c.lease;
    if (!L || L.holder !== w.id) { lose(w, 'held by another'); return false }
    if (V.self && w.ph === 'lead' && L.list.join() !== w.wrote) { if (log) log(w.id, 'its Lease went back'); w.regress = true; newTerm(w, w.epoch); return false }
    if (V.rot && w.ph === 'lead' && w.conf === w.tok) { const n = T(w.tok) + '.' + (N(w.tok) + 1); w.list = [...w.list.slice(0, -1), n]; w.tok = n }
    writeLease(w, l => { l.list = w.list.slice() }); w.wrote = w.list.join(); w.renewed = now; return true }
  function checkpoint(w) {
    w.ck = now;
    if (!S.ep || S.ep.id !== w.epoch || S.ep.dmg) return newTerm(w, w.epoch);
    if (V.tok && T(S.ep.tok || 'x.0') !== T(w.tok)) { // another term's token: another leader, or the Store was set back over an opening
      if (S.m[0].f > w.fence || S.m[1].f > w.fence) { if (V.memory && w.mine.some(x => T(x) === T(S.ep.tok))) { suspect('token'); return newTerm(w, null) } release(w); return }
      if (w.mine.some(x => T(x) === T(S.ep.tok)) || inList(w.list, S.ep.tok)) suspect('token of before'); return newTerm(w, null) }
    const f = Math.max(S.m[0].f, S.m[1].f), g = Math.min(S.m[0].f, S.m[1].f);
    if (f > w.fence) { if (V.tok) { release(w); return } const stored = f; if (!raise(w)) return; if (w.fence < stored) { w.replace = w.epoch; w.ph = 'ep' } else release(w); return }
    if (g < w.fence) { suspect('fence'); return newTerm(w, null) }
    const held = S.ep.bf === w.fence ? S.ep.beat : 0;
    if (held < w.answered || (V.rot && N(S.ep.tok) < N(w.conf))) { suspect('checkpoint'); return newTerm(w, null) }
    if (V.wt && w.pos[1] >= 0) { let top = S.rs?.rv ?? 0; for (const p of S.pods.values()) if (p.rv > top) top = p.rv; if (top <= Math.max(w.pos[0], w.pos[1])) w.above = 0; else if (!w.above) w.above = now; else if (now - w.above > 15 && alive(w.cl)) { if (log) log(w.id, 'cached version above the stream', top); w.above = 0; return newTerm(w, w.epoch) } }
    w.beat++; S.ep.bf = w.fence; S.ep.beat = w.beat; S.ep.at = clk(); w.answered = w.beat; if (back === 1) back = 3;
    if (V.rot) { S.ep.tok = w.tok; w.conf = w.tok }
    for (let i = 0; i < 2; i++) { if (S.l[i].hole && clk() - S.l[i].hole > 10) return newTerm(w, null); if (S.m[i].state === 'SUSPECT' && w.pos[i] >= 0 && S.m[i].gen === S.m[i].sg) return newTerm(w, null) } }
  const send = (w, ln, m) => { m.e = w.epoch; m.f = w.fence; m.ln = ln; m.seq = ++w.seq[ln]; if (!quiet && mode.msgs) { if (chance(.03)) { lastFault = now; return } if (chance(.05)) { late.push({ t: now + 1 + R(40), m }); return } if (chance(.05)) Q[ln].push(m) } Q[ln].push(m) };
  function stream(w) {
    const c = w.cl; if (!alive(c)) { hb(w); return }
    if (w.brk !== c.brk || w.start) { // the watch begins or broke: probe
      w.brk = c.brk; const top = Math.max(w.pos[0], w.pos[1], w.start ? S.l[0].W : 0, w.start ? S.l[1].W : 0); w.start = false;
      if (c.rev < top) { if (log) log(w.id, 'probe: regression', c.rev, '<', top); w.regress = true; return newTerm(w, w.epoch) } }
    for (let ln = 0; ln < 2; ln++) {
      if (w.pos[ln] < 0 || w.pos[ln] < c.comp) { // list + manifest in one message
        if (S.ep?.id !== w.epoch || S.m[ln].f !== w.fence) return;
        S.m[ln].gen = ++ids; send(w, ln, { k: 'M', gen: S.m[ln].gen, L: c.rev, rows: ln ? [...c.pods] : c.rs.ex ? [['rs', { ...c.rs }]] : [] }); w.pos[ln] = c.rev; w.hb[ln] = now; continue }
      if (w.pos[ln] < c.rev) { let any = false; for (let i = c.ev.length - 1; i >= 0 && c.ev[i].rv > w.pos[ln]; i--) if (c.ev[i].ln === ln) { any = true; break }
        if (any) { for (const e of c.ev) if (e.ln === ln && e.rv > w.pos[ln]) send(w, ln, { k: 'D', ty: e.ty, name: e.name, o: e.o, rv: e.rv }); w.pos[ln] = c.rev; w.hb[ln] = now } } }
    hb(w) }
  const hb = w => { for (let ln = 0; ln < 2; ln++) if (w.pos[ln] >= 0 && now - w.hb[ln] >= 5) { if (alive(w.cl)) w.pos[ln] = Math.max(w.pos[ln], w.brk === w.cl.brk ? w.cl.rev : 0); send(w, ln, { k: 'W', rv: w.pos[ln] }); w.hb[ln] = now } };

  // ---- applier ----
  function applier(ln) {
    const m = Q[ln][0]; if (!m) return; if (!S.ep) { if (Q[ln].length > 50) Q[ln].shift(); return }
    if (m.e !== S.ep.id || m.f < S.m[ln].f) { Q[ln].shift(); return }
    if (m.f > S.m[ln].f) { Q[ln].push(Q[ln].shift()); if (m.tries = (m.tries ?? 0) + 1, m.tries > 20) Q[ln].pop(); return }
    Q[ln].shift(); const l = S.l[ln];
    if (m.seq <= l.last) return;
    if (m.seq > l.last + 1) { (l.held = l.held ? l.held.slice() : []).push(m); if (!l.hole) l.hole = clk(); if (m.k === 'D') effect(ln, m); return }
    take(m); while (l.held) { const i = l.held.findIndex(x => x.seq === l.last + 1); if (i < 0) break; const h = l.held; l.held = h.filter((_, j) => j !== i); take(h[i]) }
    if (l.held && l.held.some(x => x.seq > l.last)) { } else { l.held = null; l.hole = 0 }
    function take(x) { l.last = x.seq; l.ts = clk(); if (x.k === 'D') { effect(ln, x); l.W = Math.max(l.W, x.rv) } else if (x.k === 'W') l.W = Math.max(l.W, x.rv);
      else { manifest(ln, x); l.W = Math.max(l.W, x.L); const mm = S.m[ln]; if (x.gen === mm.gen) { mm.sg = x.gen; if (mm.old !== x.gen) mm.state = 'SYNCED' } }
      for (const [u, rv] of S.tomb) if (rv <= S.l[1].W) S.tomb.delete(u) } }
  function put(name, o) { const r = S.pods.get(name); if (r && r.rv >= o.rv) return; if (S.tomb.has(o.uid)) return; if (!r && o.rv <= S.l[1].W) return; S.pods.set(name, o); const op = S.ops.get(name); if (op && op.v === 'c') S.ops.delete(name) }
  function effect(ln, m) {
    if (ln === 0) { if (!S.rs || S.rs.rv < m.rv) S.rs = { ...m.o } ; return }
    if (m.ty === 'A') { put(m.name, m.o); S.ops.delete(m.name) } else { const r = S.pods.get(m.name); if (r && r.rv <= m.rv && r.uid === m.o.uid) S.pods.delete(m.name); S.tomb.set(m.o.uid, m.rv); S.ops.delete('d' + m.o.uid) } }
  function manifest(ln, m) {
    if (ln === 0) { const o = m.rows[0]?.[1]; if (!o) { if (S.rs && S.rs.rv <= m.L) S.rs = null } else if (!S.rs || S.rs.rv < o.rv || S.rs.rv <= m.L) S.rs = { ...o }; return }
    const keep = new Map(m.rows); for (const [n, o] of S.pods) if (!keep.has(n) && o.rv <= m.L) S.pods.delete(n);
    for (const [n, o] of keep) { const r = S.pods.get(n), t = S.tomb.get(o.uid); if (t && t > m.L) continue; if (!r || r.rv < o.rv || r.rv <= m.L) { S.pods.set(n, o); S.ops.delete(n) } } }

  // ---- functions: one key ----
  const mkF = (cl, id) => ({ cl, id, seen: new Map(), run: null, sleep: 0, mis: -1 });
  const drop = f => { const r = f.run; if (r && S.ep?.id === r.e && S.run?.id === r.id) S.run = null; f.run = null };
  const holder = r => S.ep?.id === r.e && S.run?.id === r.id && (!V.bind || (S.m[0].f === r.f && S.m[1].f === r.f2 && T(S.ep.tok || 'x.0') === T(r.tok || 'x.0')));
  function lease(f) { // true: proven; false: not
    const r = f.run, key = V.tok ? T(r.tok || 'x.0') + r.e : r.e + r.f, at = f.seen.get(key);
    if (at !== undefined && (!V.reproof || now - at <= 10)) return true;
    if (!alive(f.cl)) { f.seen.clear(); return false }
    const L = f.cl.lease, ok = L && r.tok && (V.member ? inList(L.list, r.tok) : L.list.at(-1) === r.tok);
    if (ok) { f.seen.set(key, now); f.mis = -1; return true }
    if (f.mis < 0) f.mis = now; else if (now - f.mis >= 30 && f.cl === P) alarm = 1; if (log && !quiet) log(f.id, 'Lease does not match', r.tok, L?.list.join()); return false }
  function fn(f) {
    if (now < f.sleep) return;
    const r = f.run, c = f.cl;
    if (!r) {
      if (closed()) return; if (!S.rs || !S.rs.ex) return;
      if (S.run && ahead(S.run.until, RUN)) return;
      let pending = false, due = false; for (const o of S.ops.values()) if (o.st === 'p') { pending = true; if (!ahead(o.until, OP)) due = true }
      if (pending && !due) return;
      if (V.seen) { const g = f.ck; if (g && g.e === S.ep.id && (S.ep.bf < g.f || (S.ep.bf === g.f && S.ep.beat < g.b))) { f.ck = null; return suspect('seen by a function') } f.ck = { e: S.ep.id, f: S.ep.bf, b: S.ep.beat } }
      const seen = S.pods.size; if (!due && S.rs.n === seen && S.rs.st === seen) return;
      f.run = { id: ++ids, e: S.ep.id, epAt: S.ep.epAt, f: S.m[0].f, f2: S.m[1].f, tok: S.ep.tok, t0: now, rs: S.rs, pods: new Map(S.pods), ops: new Map(S.ops), mark: S.mark, behind: (S.markL ?? 0) > S.l[1].W, susp: S.susp ?? 0, back, due, st: V.fcheck && V.first ? 'chk' : 'live', by: S.ep.by };
      S.run = { id: f.run.id, until: clk() + RUN }; return }
    switch (r.st) {
      case 'chk': if (!lease(f)) return drop(f); r.st = V.first ? 'live' : 'reg'; return;
      case 'live': {
        if (!alive(c)) { f.seen.clear(); return drop(f) }
        const o = c.rs; if (!o.ex) return drop(f);
        if (r.due) { // RECOVER
          if (!holder(r)) return drop(f);
          for (const [n, op] of S.ops) if (op.st === 'p' && !ahead(op.until, OP)) { if (op.v === 'd') { if (![...c.pods.values()].some(p => p.uid === op.uid)) { for (const [k, p] of S.pods) if (p.uid === op.uid) S.pods.delete(k); S.tomb.set(op.uid, c.rev) } S.ops.delete(n) } else { const p = c.pods.get(n); S.ops.delete(n); if (p) put(n, p); else S.ops.set(n, { v: 'c', st: 'l', until: 0, land: op.land }) } }
          return drop(f) }
        if (V.ahead && holder(r) && S.rs && S.rs.rv > o.rv) { S.ep.dmg = true; return drop(f) }
        if (holder(r) && (!S.rs || S.rs.rv < o.rv)) S.rs = { ...o }; // write-through of the live owner
        if (o.gen !== r.rs.gen || o.n !== r.rs.n) return drop(f);
        const want = o.n - r.pods.size, key = V.fence ? r.e + '/' + r.f + '/' + r.susp : r.e + '/' + r.susp;
        let list = (V.live && (r.mark !== key || (V.past && r.behind))) || V.always || (V.dl && want < 0);
        if (V.stat && !list && o.st > r.pods.size) { let gone = 0; for (const rv of r.rsDel ?? S.tomb.values()) if (rv > o.stRv) gone++; if (o.st > r.pods.size + gone) list = true }
        if (V.statdel && !list && want < 0) { let young = 0; for (const p of r.pods.values()) if (p.rv > o.stRv) young++; if (o.st < r.pods.size - young) list = true }
        if (list && want !== 0 || list && o.st !== r.pods.size) {
          if (!holder(r)) return drop(f);
          r.pods = new Map(c.pods); r.listed = now; for (const [n, p] of c.pods) { const q = S.pods.get(n); if (!q || q.rv !== p.rv) put(n, p) } if (V.ghost) for (const [n, q] of S.pods) if (!c.pods.has(n)) { S.pods.delete(n); S.tomb.set(q.uid, c.rev) } S.mark = key; S.markL = c.rev }
        r.want = o.n - r.pods.size; r.o = { st: o.st, rv: o.rv }; r.st = V.fcheck && !V.first ? 'chk' : 'reg'; return }
      case 'reg': {
        if (!holder(r)) return drop(f);
        r.todo = [];
        if (r.want > 0) { let k = r.want; for (const [n, op] of S.ops) if (op.v === 'c' && op.st === 'l') { if (r.pods.has(n)) { S.ops.delete(n); continue } if (k > 0) { r.todo.push(n); k-- } }
          while (k-- > 0) r.todo.push(V.names ? r.e + '#' + S.ctr++ : 'p' + ++ids); for (const n of r.todo) S.ops.set(n, { v: 'c', st: 'p', until: clk() + OP, run: r.id }) }
        else if (r.want < 0) { const all = [...r.pods]; for (let k = r.want; k < 0 && all.length; k++) { const [[n, p]] = all.splice(R(all.length), 1); r.todo.push([n, p]); S.ops.set('d' + p.uid, { v: 'd', uid: p.uid, st: 'p', until: clk() + OP, run: r.id }) } }
        r.st = 'call'; return }
      case 'call': {
        if (V.lapse && now - r.t0 > 12) { if (holder(r)) for (const [n, op] of S.ops) if (op.run === r.id && op.st === 'p') { op.v === 'c' ? S.ops.set(n, { v: 'c', st: 'l', until: 0 }) : S.ops.delete(n) } return drop(f) }
        if (!alive(c)) { f.seen.clear(); r.out = r.todo.map(() => null); r.st = 'save'; return }
        r.out = r.todo.map(x => {
          const lost = !quiet && mode.lossy && chance(.15);
          const how = lost ? pick(['before', 'after', 'late']) : 'ok';
          if (lost && c === P) { unknown.push({ t: now, n: x }); lastFault = now }
          if (how === 'before') return null;
          if (how === 'late') { late.push({ t: now + 1 + R(LAND - 1), f: () => land(c, x, r) }); return null }
          const a = land(c, x, r); return how === 'ok' ? a : null });
        r.st = 'save'; return }
      case 'save': {
        if (holder(r)) { r.todo.forEach((x, i) => { const a = r.out[i];
          if (typeof x === 'string') { if (a) { S.ops.delete(x); put(x, a) } else S.ops.set(x, { v: 'c', st: 'l', until: 0 }) }
          else if (a) { S.ops.delete('d' + x[1].uid); if (S.pods.get(x[0])?.uid === x[1].uid) S.pods.delete(x[0]); S.tomb.set(x[1].uid, c.rev) } })
        } else if (c === P) for (const x of r.todo) if (typeof x === 'string') unknown.push({ t: now, n: x });
        if (alive(c) && c.rs.ex && c.rs.rv === r.o.rv && r.todo.length === 0 && c.rs.st !== r.pods.size && now - r.t0 <= 12) { setRs(c, o => { o.st = r.pods.size; o.stRv = c.rev }); if (holder(r)) S.rs = { ...c.rs } }
        return drop(f) } } }
  function land(c, x, r) {
    if (typeof x === 'string') { const had = c.pods.get(x); if (had) return had; if (!c.rs.ex) return null; const o = putPod(c, x);
      if (c === P) { made++; unknown = unknown.filter(u => now - u.t < 60); const more = P.pods.size - nMax() - unknown.length;
        if (log) log('create', x, 'by', r.e, r.f, 'live', P.pods.size, 'n', P.rs.n, r.listed ? 'listed' : '');
        if (more > 0) { const id = r.t0 < restoredAt + 1 && r.t0 > restoredAt - 40 ? '' : r.epAt < restoredAt && now - restoredAt < 45 ? 'I1r' : (r.back === 1 || now - storeBack < 3) && !r.listed ? 'I1w' : back === 3 && now - storeBack < 40 && !r.listed ? 'I1c' : 'I1'; if (id) bad(id, `${P.pods.size} pods, n ${P.rs.n}, unknown ${unknown.length}; epoch ${r.e} of ${r.by}${r.listed ? ', listed' : ''}`) }
        if (made > userDel * 2 + 12 + unknown.length) bad('I4', `${made} creates, ${userDel} pods taken away`) }
      return o }
    const [n, p] = x, o = c.pods.get(n); if (!o || o.uid !== p.uid || o.rv !== p.rv) return p; delPod(c, n);
    if (c === P) { ourDel = ourDel.filter(t => t > now - 100); let max = -9; for (let i = surplus.length - 1; i >= 0; i--) { max = Math.max(max, surplus[i].v); if (surplus[i].t < now - 100) break } max -= nMin(); if (log) log('delete', n, 'by', r.e, r.f, 'live', P.pods.size, 'n', P.rs.n);
      if (P.pods.size < nMin() && max < 1 && !unknown.length) if (!(r.t0 < restoredAt + 1 && r.t0 > restoredAt - 40)) bad(r.epAt < restoredAt && now - restoredAt < 45 ? 'I2r' : r.back === 1 && !r.listed ? 'I2w' : (back === 3 || r.back === 3) && now - storeBack < 40 && !r.listed ? 'I2c' : 'I2', `${n} deleted, ${P.pods.size} left, n ${P.rs.n}; epoch ${r.e} of ${r.by}`); ourDel.push(now); userDel++ }
    return p }

  // ---- the run ----
  let ws = [mkW(P, 'w1')], fs = [mkF(P, 'f1'), mkF(P, 'f2')]; if (mode.two) ws.push(mkW(P, 'w2'));
  const step = () => { const k = R(ws.length * 3 + fs.length * 3 + 4); if (k < ws.length * 3) { const w = ws[(k / 3) | 0]; watcher(w); if (!quiet && mode.crash && chance(.004)) { if (log) log(w.id, 'crash in', w.ph); reset(w) } else if (!quiet && chance(.003)) { w.sleep = now + 1 + R(80); if (log) log(w.id, 'frozen until', w.sleep, w.ph) } }
    else if (k < ws.length * 3 + fs.length * 3) { const f = fs[((k - ws.length * 3) / 3) | 0]; fn(f); if (!quiet && mode.crash && chance(.006)) { if (f.run?.st === 'save' && f.cl === P) for (const x of f.run.todo) if (typeof x === 'string') unknown.push({ t: now, n: x }); f.run = null; f.seen.clear() } else if (!quiet && chance(.004)) f.sleep = now + 1 + R(40) }
    else applier(k & 1) };
  const tick = (dt, steps) => { now += dt; for (let i = 0; i < late.length; i++) if (late[i].t <= now) { const x = late.splice(i--, 1)[0]; x.f ? x.f() : Q[x.m.ln].push(x.m) } for (let i = 0; i < steps; i++) step() };
  quiet = true; for (let i = 0; i < 14; i++) tick(3, 40); quiet = false; // settle
  const D = [1, 1, 1, 2, 2, 3, 5, 8, 15, 30];
  const lag = chance(.3);
  for (let i = 0, rounds = 20 + R(25); i < rounds; i++) {
    if (i % 3 === 0) { backups.push(copy(P)); if (backups.length > 6) backups.shift() }
    if (mode.store) { shots.push(dup(S)); if (shots.length > 12) shots.splice(R(8), 1) }
    if (chance(.3) && alive(P) && P.pods.size) { delPod(P, pick([...P.pods.keys()])); userDel++; if (log) log('user deletes a pod in P, live', P.pods.size) }
    if (chance(.05) && alive(P) && P.rs.ex) { setRs(P, o => { o.n = 1 + R(4); o.gen++ }); nHist.push({ t: now, n: P.rs.n }); note(); if (log) log('user scales P to', P.rs.n) }
    if (!P.rs.ex && i > 2 && alive(P)) { for (let k = R(3); k > 0; k--) putPod(P, 'orphan+' + ++ids); setRs(P, o => { o.ex = true; o.n = P.pods.size; o.gen++ }); nHist.push({ t: now, n: P.rs.n }); note(); if (log) log('user creates the ReplicaSet of', P.rs.n) }
    if (mode.clone && !C && i > 2 && chance(.2)) { C = copy(chance(.5) ? backups.at(-1) : pick(backups)); C.name = 'C'; twin = !!S.ep && inList(C.lease?.list ?? [], S.ep.tok || 'x.0'); C.up = true; C.upAt = 0; if (chance(.3)) { C.rev += 1000; if (chance(.5)) C.comp = C.rev } if (chance(.5)) { for (const n of [...C.pods.keys()]) delPod(C, n) } else if (chance(.5)) { putPod(C, 'x' + ++ids) } ws.push(mkW(C, 'wc')); if (mode.cfun) fs.push(mkF(C, 'fc')); if (log) log('clone starts: rev', C.rev, 'Lease', C.lease?.list.join(), 'pods', [...C.pods.keys()].join()) }
    if (C && chance(.15) && C.pods.size) { delPod(C, pick([...C.pods.keys()])) }
    if (mode.restore && chance(.08) && backups.length > 1) { const b = copy(chance(.5) ? backups.at(-1) : pick(backups)); const brk = P.brk; const old = P.rev; for (const k of ['rev', 'comp', 'lease', 'rs', 'pods', 'ev']) P[k] = b[k]; P.brk = brk + 1; if (S.ep && inList(P.lease?.list ?? [], S.ep.tok || 'x.0')) ztwin = true; if (chance(.4)) { P.rev = Math.max(P.rev, old) + 500; if (chance(.5)) P.comp = P.rev } P.upAt = now + pick([0, 5, 20, 90]); restoredAt = P.upAt; userDel += 4; nHist.push({ t: now, n: P.rs.n }); note(); if (log) log('P restored in place, rev', P.rev, 'Lease', P.lease?.list.join(), 'pods', [...P.pods.keys()].join(), 'up at', P.upAt); if (chance(.4)) for (const w of ws) if (w.cl === P) reset(w) }
    if (mode.down && chance(.06)) { P.upAt = now + pick([5, 20, 100, 300]); P.brk++; if (log) log('P unreachable until', P.upAt) }
    if (mode.store && chance(.1) && shots.length) { storeBack = now; if (chance(.2)) { S = fresh(); back = 0; if (log) log('Store flushed') } else { S = dup(chance(.6) ? shots.at(-1 - R(Math.min(3, shots.length))) : pick(shots)); back = 1; if (log) log('Store set back: tok', S.ep?.tok, 'epoch', S.ep?.id, 'beat', S.ep?.beat, 'pods', [...S.pods.keys()].join()) } }
    if (mode.gone && chance(.1)) { const c = C && chance(.4) ? C : P; if (alive(c) && c.lease) { c.lease = null; if (log) log('the Lease of', c.name, 'is deleted') } }
    if (mode.clock && chance(.1)) { off += pick([-300, 300, -60, 60]); if (log) log('Store clock', off) }
    if (mode.hand && chance(.08)) { const w = ws.find(x => x.ph === 'lead' && x.cl === P && now >= x.sleep); if (w && alive(P) && S.ep?.id === w.epoch) { checkpoint(w); if (w.ph === 'lead') { w.fin = { tok: S.ep.tok, beat: S.ep.bf + '/' + S.ep.beat }; release(w); if (log) log(w.id, 'hands over', JSON.stringify(w.fin)); w.fin = null; if (chance(.4)) reset(w) } } }
    if (lag) tick(pick(D), R(24)); else tick(pick(D), 10 + R(30)) }
  quiet = true; P.up = true; P.upAt = Math.min(P.upAt, now); off = V.clampless ? off : off;
  const wake = () => { if (alive(P) && P.pods.size > P.rs.n - 1 && P.pods.size) { delPod(P, [...P.pods.keys()][0]); userDel++ } };
  const settled = () => P.pods.size === P.rs.n && !closed() && S.ep.by === 'P' && S.pods.size === P.rs.n && P.rs.st === P.rs.n && (!V.tok || inList(P.lease?.list ?? [], S.ep.tok || 'x.0'));
  const calm = (limit) => { let n = 0; for (let i = 0; i < limit / 5; i++) { tick(2, 18); tick(3, 18); if (settled()) { if (n === 0) { n = 1; wake() } else if (++n > 2) return true } } return false };
  if (C) { alarm = 0; const ok = calm(200); if (closed() === 'four epochs') alarm = 1; if (log) log('state', JSON.stringify(S.rs), JSON.stringify(P.rs), [...S.pods].map(x => x[0] + ':' + x[1].rv).join(), [...P.pods.keys()].join(), JSON.stringify([...S.ops]), JSON.stringify(S.run), closed()); if (!ok && !alarm && P.rs.ex) bad('I4a', `P neither works nor alarms while the clone lives (${closed()})`); ws = ws.filter(w => w.cl === P); fs = fs.filter(f => f.cl === P); if (log) log('clone gone', ok, alarm) }
  if (!P.rs.ex) return viol;
  const t1 = now; if (!calm(V.auto ? 1100 : 500)) bad(C ? 'I3c' : mode.store || mode.clock || mode.msgs ? 'I3' : mode.restore ? 'I3r' : 'I3', `not converged ${now - t1} s after the last fault: pods ${P.pods.size}, n ${P.rs.n}, gate ${closed() || 'open'}, epoch of ${S.ep?.by}, tok ${S.ep?.tok}, Lease ${P.lease?.list.join()}, cached ${S.pods.size}`);
  return viol }

const arg = (n, d) => { const i = process.argv.indexOf('--' + n); return i < 0 ? d : process.argv[i + 1] };
if (process.argv[1]?.endsWith('model.mjs')) {
  const name = arg('variant', 'V1'); let rules = (VARIANTS[name] ?? '').split(','); rules = [...rules, ...(arg('on', '').split(','))].filter(r => r && !arg('off', '').split(',').includes(r));
  const only = arg('only')?.split(','), tr = arg('trace'); if (tr) { console.log(run(+tr, rules, true, only)) } else {
    const [a, b] = arg('seeds', '1-20000').split('-').map(Number), sum = {}, first = {}, t = Date.now();
    for (let i = a; i <= b; i++) { const v = run(i, rules, false, only); for (const k in v) { sum[k] = (sum[k] ?? 0) + 1; first[k] ??= [i, v[k]] } }
    console.log((name + (only ? ' ' + only : '')).padEnd(12), `${b - a + 1} runs ${((Date.now() - t) / 1000).toFixed(0)} s`, JSON.stringify(sum)); if (process.argv.includes('--first')) for (const k in first) console.log('   ', k, ...first[k]) } }
