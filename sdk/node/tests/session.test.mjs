// A session: its life, its questions, its functions, and that it is an object.
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import childProcess from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { ending, keyward, open, program, project, root } from './support.mjs';

const { Denied, Session, SessionLost } = keyward;
const listed = () => JSON.parse(childProcess.execFileSync('keyward', ['ps', '--json'])).sessions;
const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

async function until(holds) {
  for (let i = 0; i < 200; i++) {
    if (await holds()) return;
    await sleep(50);
  }
  assert.fail('it did not come to that');
}

test('commands of a session share its cage, and it ends with the object', async () => {
  let name;
  {
    const session = await Session.open({ name: 'shared' });
    session.on('notice', () => {});
    name = session.name;
    await session.promises.exec('echo kept > /tmp/note');
    assert.equal((await session.promises.exec('cat /tmp/note')).stdout, 'kept\n');
    const spaces = (options) => session.promises.execFile('readlink', ['/proc/self/ns/pid'], options).then(({ stdout }) => stdout);
    assert.equal(await spaces({}), await spaces({}));
    assert.notEqual(await spaces({}), await spaces({ fresh: true }));
    await session[Symbol.asyncDispose]();
  }
  assert.equal(name, 'shared');
  assert.deepEqual(listed(), []);
});

test('a session with a shell remembers', async (t) => {
  const session = await open(t, { shell: true });
  await session.shell('cd /tmp; export GREETING=hello; greet() { echo "$GREETING $1"; }');
  assert.equal((await session.shell('pwd; greet you')).stdout, '/tmp\nhello you\n');
  assert.equal((await session.promises.execFile('printf', ['%s|', 'a b', "c'd", '$X'])).stdout, "a b|c'd|$X|");
  assert.equal((await session.promises.execFile('sh', ['-c', 'echo $ONCE'], { env: { ...process.env, ONCE: 'x y' } })).stdout, 'x y\n');
  assert.equal(session.execFileSync('sh', ['-c', 'echo "$ONCE"'], { env: { ...process.env, ONCE: "x  'y" }, encoding: 'utf8' }), "x  'y\n");
  await assert.rejects(session.shell('echo', { env: { ...process.env, ONCE: 'x' } }), /takes no env/u);
  const plain = await open(t);
  await assert.rejects(plain.shell('pwd'), /keeps no shell/u);
});

test('a job in the background goes on, and its output is kept', async (t) => {
  const session = await open(t);
  const job = await session.background('sh', ['-c', 'echo building; sleep 60']);
  await until(async () => (await job.logs()) === 'building\n');
  const jobs = await session.jobs();
  assert.deepEqual(jobs.map(({ job, background, exit }) => ({ job, background, exit })), [{ job: job.job, background: true, exit: null }]);
  await job.kill();
  await until(async () => (await session.jobs())[0].exit === 137);
  const missing = await session.background('nosuch-program');
  await until(async () => (await session.jobs()).find((each) => each.job === missing.job).exit === 127);
});

test('a session that another process started can be attached to, and stays', async (t) => {
  const owner = await open(t, { name: 'owned' });
  const guest = await Session.attach('owned');
  assert.equal((await guest.promises.exec('echo hi')).stdout, 'hi\n');
  await guest.close();
  await assert.rejects(guest.promises.exec('echo hi'), SessionLost);
  assert.equal((await owner.promises.exec('echo still')).stdout, 'still\n');
  await assert.rejects(Session.attach('nosuch'), { code: 'session-unknown' });
  await assert.rejects(Session.open({ name: 'owned' }), { code: 'session-taken' });
});

test('a session that dies turns what runs and every later call into an error', async (t) => {
  // A session that is listened to does not keep a program alive.
  const awake = setInterval(() => {}, 1000);
  t.after(() => clearInterval(awake));
  const session = await Session.open();
  session.on('notice', () => {});
  const lost = new Promise((resolve) => session.once('lost', resolve));
  const child = session.spawn('sleep', ['1000']);
  const ended = ending(child);
  await new Promise((resolve) => child.once('spawn', resolve));
  process.kill(listed().find(({ session: name }) => name === session.name).pid, 'SIGKILL');
  assert.ok((await ended).error instanceof SessionLost);
  assert.ok((await lost) instanceof SessionLost);
  assert.equal(session.closed, true);
  for (const call of [() => session.promises.exec('touch ran'), () => session.jobs(), () => session.tool('x', () => 1), () => session.call('x'), () => session.background('true')]) {
    await assert.rejects(call(), SessionLost);
  }
  assert.throws(() => session.execSync('touch ran'), SessionLost);
  assert.ok((await ending(session.spawn('touch', ['ran']))).error instanceof SessionLost);
  assert.ok((await ending(session.spawn('touch', ['ran'], { stdio: 'inherit' }))).error instanceof SessionLost);
  assert.equal(fs.existsSync('ran'), false);
  await session.close();
});

test('a session ends also if only its bridge is killed', async () => {
  const session = await Session.open({ name: 'bridged' });
  session.on('notice', () => {});
  const bridges = fs.readdirSync('/proc').filter((pid) => {
    try {
      return fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')[3] === `${process.pid}` && fs.readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('keyward:bridge');
    } catch {
      return false;
    }
  });
  assert.ok(bridges.length >= 1);
  for (const pid of bridges) process.kill(Number(pid), 'SIGKILL');
  await until(() => !listed().some(({ session: name }) => name === 'bridged'));
  await assert.rejects(session.promises.exec('true'), SessionLost);
});

for (const end of ['returns', 'is killed']) {
  test(`a session ends with the program that opened it: it ${end}`, async () => {
    const script = `
      import { Session } from ${JSON.stringify(path.join(root, 'sdk/node/index.js'))};
      const session = await Session.open();
      session.on('notice', () => {});
      await session.promises.exec('true');
      console.log(session.name);
      ${end === 'returns' ? '' : 'setInterval(() => {}, 1000);'}`;
    const child = childProcess.spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const name = await new Promise((resolve) => child.stdout.once('data', (text) => resolve(`${text}`.trim())));
    if (end === 'is killed') child.kill('SIGKILL');
    await until(() => !listed().some(({ session }) => session === name));
  });
}

// --- the session is an object ---------------------------------------------------------------------------------------------------------

test('a task acts for the session that it was handed; what surrounds a task gets lost', async (t) => {
  const around = new AsyncLocalStorage();
  const queue = [];
  // A pool whose worker began before: it runs tasks of others in its own surroundings.
  const worker = setInterval(() => queue.shift()?.(), 1);
  t.after(() => clearInterval(worker));
  const session = await open(t, { name: 'handed' });
  const mark = (of) => of.promises.exec('echo marked >> /tmp/mark; wc -l < /tmp/mark');
  const ran = await around.run(session, () => new Promise((resolve) => queue.push(async () => resolve({ ambient: around.getStore(), lines: (await mark(session)).stdout.trim() }))));
  assert.equal(ran.ambient, undefined, 'the control: the ambient session is gone there');
  assert.equal(ran.lines, '1');
  // Without the object there is no session: the command has a cage of its own.
  const { stdout } = await (await import('../promises.js')).exec('cat /tmp/mark 2>/dev/null || echo none');
  assert.equal(stdout, 'none\n');
});

test('two sessions beside each other stay apart in every kind of callback', async (t) => {
  const all = await Promise.all(['one', 'two'].map(async (name) => [name, await open(t, { name })]));
  for (const [name, session] of all) await session.promises.exec(`echo ${name} > /tmp/name`);
  const seen = [];
  const say = ([name, session]) => session.promises.exec('cat /tmp/name').then(({ stdout }) => seen.push(`${name}=${stdout.trim()}`));
  for (const later of [(fn) => setTimeout(fn, 1), setImmediate, queueMicrotask, (fn) => process.nextTick(fn), (fn) => fs.stat('.', fn)]) {
    await Promise.all(all.map((each) => new Promise((resolve) => later(() => say(each).then(resolve)))));
  }
  assert.deepEqual([...new Set(seen)].sort(), ['one=one', 'two=two']);
  assert.equal(seen.length, 10);
});

test('a session cannot be sent to a worker, which can attach to it', async (t) => {
  const session = await open(t, { name: 'threads' });
  const script = `
    const { parentPort, workerData } = require('node:worker_threads');
    const { Session } = require(${JSON.stringify(path.join(root, 'sdk/node/lib/index.cjs'))});
    (async () => {
      const session = await Session.attach(workerData);
      const { stdout } = await session.promises.exec('echo from a worker');
      await session.close();
      parentPort.postMessage(stdout);
    })();`;
  const worker = new Worker(script, { eval: true, workerData: session.name });
  assert.throws(() => worker.postMessage(session), (error) => error.name === 'DataCloneError' && /Session\.attach\(name\)/u.test(error.message));
  assert.throws(() => structuredClone({ session }), /stays in the thread/u);
  assert.equal(await new Promise((resolve) => worker.once('message', resolve)), 'from a worker\n');
});

// --- questions ------------------------------------------------------------------------------------------------------------------------

const PUSH = ['git', ['push', '--force', 'origin']];
fs.mkdirSync(project, { recursive: true });
childProcess.execFileSync('git', ['init', '-q', '.']);

/** Runs a command that the gate asks about. */
function push(session) {
  return session.promises.execFile(...PUSH).then(() => 'ran', (error) => (error instanceof Denied ? error : 'ran'));
}

test('what is asked about runs if onApproval says yes, at once or later', async (t) => {
  const seen = [];
  const answers = [() => true, async () => true, () => ({ allow: true, reach: 'once' }), () => sleep(50).then(() => true)];
  const session = await open(t, { gate: 'ask', onApproval: (question) => { seen.push(question); return answers[seen.length - 1](); } });
  for (const _ of answers) assert.equal(await push(session), 'ran');
  assert.equal(seen.length, answers.length);
  const [question] = seen;
  assert.deepEqual([question.argv, question.rule, question.fromInside], [['git', 'push', '--force', 'origin'], 'git-push-force', false]);
  assert.equal(question.document.project, project);
  await until(() => question.signal.aborted || true);
});

test('what is not a clear yes is a no', async (t) => {
  const answers = {
    'no': () => false,
    'later no': async () => false,
    'a word': () => 'yes',
    'a number': () => 1,
    'nothing': () => undefined,
    'an object': () => ({ allow: 'true' }),
    'an unknown reach': () => ({ allow: true, reach: 'ever' }),
    'it throws': () => { throw new Error('no approver'); },
    'it rejects': async () => { throw new Error('no approver'); },
    'it hangs': () => new Promise(() => {}),
  };
  for (const [name, onApproval] of Object.entries(answers)) {
    const session = await open(t, { gate: 'ask', onApproval, approvalTimeout: 300 });
    const error = await push(session);
    assert.ok(error instanceof Denied, name);
    assert.deepEqual([error.code, error.exit, error.rule], ['denied', 123, 'git-push-force'], name);
    assert.ok(error.remedy && error.reason, name);
    await session.close();
  }
});

test('without onApproval, and without a session, it is denied at once', async (t) => {
  const session = await open(t, { gate: 'ask' });
  const error = await push(session);
  assert.ok(error instanceof Denied);
  assert.equal(error.rule, 'git-push-force');
  const { execFile } = await import('../promises.js');
  const alone = await execFile(...PUSH, { gate: 'ask' }).catch((failed) => failed);
  assert.ok(alone instanceof Denied, String(alone));
  assert.deepEqual([alone.rule, alone.exit, alone.code], ['git-push-force', 123, 'denied']);
  assert.throws(() => keyward.spawn('true', { onApproval: () => true }), /needs a session/u);
});

test('an approver that dies has said no', async (t) => {
  const owner = await open(t, { gate: 'ask', name: 'orphaned' });
  const script = `
    import { Session } from ${JSON.stringify(path.join(root, 'sdk/node/index.js'))};
    await Session.attach('orphaned', { onApproval: () => { process.kill(process.pid, 'SIGKILL'); } });
    console.log('watching');
    setInterval(() => {}, 1000);`;
  const child = childProcess.spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  assert.ok((await push(owner)) instanceof Denied);
});

test('a synchronous call is refused where onApproval could not answer', async (t) => {
  const session = await open(t, { onApproval: () => true });
  assert.throws(() => session.execSync('true'), /onApproval/u);
});

// --- functions of this program --------------------------------------------------------------------------------------------------------

const SUM = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'], additionalProperties: false };
const call = (name, input) => ['exec', [`${JSON.stringify(program)} call ${name} '${JSON.stringify(input)}'`]];
const inside = (session, name, input, tools = [name]) => session.promises.exec(call(name, input)[1][0], { tools }).then(({ stdout }) => JSON.parse(stdout), (error) => error.stderr);

test('a command in the cage calls a function of this program, with what its schema allows', async (t) => {
  const session = await open(t, { read: [program] });
  const calls = [];
  await session.tool('add', (input, { fromInside }) => { calls.push(fromInside); return input.a + input.b; }, { schema: SUM });
  assert.equal(await inside(session, 'add', { a: 4, b: 5 }), 9);
  assert.equal(await session.call('add', { a: 1, b: 2 }), 3);
  assert.deepEqual(calls, [true, false]);
  assert.match(await inside(session, 'add', { a: 4 }), /the input\.b is missing/u);
  assert.match(await inside(session, 'add', { a: 4, b: 'x' }), /the input\.b is not of type number/u);
  assert.match(await inside(session, 'add', { a: 4, b: 5, c: 6 }), /the input\.c is unknown/u);
  assert.match(await inside(session, 'nosuch', {}), /no client offers this function/u);
  assert.equal(calls.length, 2, 'what does not fit is not called');
  assert.match(await inside(session, 'add', { a: 1, b: 2 }, []), /not named for the command that calls it/u);
  assert.throws(() => session.spawn('true', { tools: 'add' }), { code: 'ERR_INVALID_ARG_TYPE' });
  assert.throws(() => session.spawn('true', { tools: ['add'], stdio: 'inherit' }), /cannot name functions/u);
});

test('a function that one command names is not callable by a command beside it', async (t) => {
  const session = await open(t, { read: [program] });
  await session.tool('only', () => 'called');
  const named = session.spawn('sh', ['-c', `echo ready; read line; ${JSON.stringify(program)} call only null`], { tools: ['only'] });
  await new Promise((resolve) => named.stdout.once('data', resolve));
  assert.match(await inside(session, 'only', null, []), /not named for the command that calls it/u);
  let told = '';
  named.stdout.on('data', (part) => { told += part; });
  named.stdin.end('go\n');
  await ending(named);
  assert.equal(told, '"called"\n');
});

test('what a function gives is passed on without credentials', async (t) => {
  const session = await open(t);
  process.env.MY_SERVICE_TOKEN = 'correct horse battery';
  const key = `sk-ant-api03-${'a1B2'.repeat(10)}`;
  await session.tool('leaks', () => ({ text: `the key is ${key}, indeed`, list: [process.env.MY_SERVICE_TOKEN], password: 'x', fine: 'h\u00e9llo' }));
  const given = await session.call('leaks');
  delete process.env.MY_SERVICE_TOKEN;
  const removed = '(removed: looks like a credential)';
  assert.deepEqual(given, { text: `the key is ${removed}, indeed`, list: [removed], password: removed, fine: 'h\u00e9llo' });
  await session.tool('throws', () => { throw new Error(`no access with ${key}`); });
  await assert.rejects(session.call('throws'), (error) => !error.message.includes('a1B2'));
});

test('functions may take their time, fail, and get or give much', async (t) => {
  const session = await open(t, { read: [program] });
  await session.tool('slow', async (n) => { await sleep(100 - n * 10); return n; });
  assert.deepEqual(await Promise.all(Array.from({ length: 8 }, (_, n) => session.call('slow', n))), [0, 1, 2, 3, 4, 5, 6, 7]);
  await session.tool('fails', () => { throw new Error('out of order'); });
  assert.match(await inside(session, 'fails', null), /out of order/u);
  await session.tool('nothing', () => {});
  assert.equal(await session.call('nothing'), null);
  await session.tool('length', (text) => text.length, { maxInput: 100_000 });
  assert.equal(await session.call('length', 'x'.repeat(90_000)), 90_000);
  await assert.rejects(session.call('length', 'x'.repeat(99_999)), /longer than 100000 bytes/u);
  await session.tool('much', (n) => 'x'.repeat(n));
  assert.equal((await session.call('much', 100_000)).length, 100_000);
  await assert.rejects(session.call('much', 200_000), /longer than/u);
  await assert.rejects(session.call('length', 'x'.repeat(200_000)), { code: 'E2BIG' });
  const other = await Session.attach(session.name);
  await assert.rejects(other.tool('much', () => 1), /already offered/u);
  await other.close();
  await assert.rejects(session.tool('no spaces', () => 1), /cannot be offered/u);
});

test('a call whose caller is gone disturbs no other', async (t) => {
  const session = await open(t, { read: [program] });
  let began;
  const first = new Promise((resolve) => (began = resolve));
  await session.tool('wait', async (n) => { began(); await sleep(200); return n; });
  const child = session.spawn('sh', ['-c', `exec ${JSON.stringify(program)} call wait 1`], { tools: ['wait'] });
  await first;
  child.kill('SIGKILL');
  assert.equal((await ending(child)).signal, 'SIGKILL');
  assert.deepEqual(await Promise.all([session.call('wait', 2), session.tool('late', () => 3)]), [2, undefined]);
  assert.equal(await session.call('late'), 3);
});

test('a schema with a keyword that is not known is refused', async (t) => {
  const session = await open(t);
  assert.throws(() => { throw new keyward.KeywardError('x'); }, keyward.KeywardError);
  await assert.rejects(session.tool('x', () => 1, { schema: { type: 'object', dependentRequired: {} } }), /dependentRequired/u);
  await assert.rejects(session.tool('x', () => 1, { schema: { $ref: '#/nowhere' } }), /has no #\/nowhere/u);
});

test('a function whose input is judged runs only if the gate lets it', async (t) => {
  const session = await open(t, { read: [program], gate: 'deny' });
  const ran = [];
  await session.tool('shell', ({ command }) => { ran.push(command); return 'ran'; }, { judged: { as: 'sh', field: 'command' } });
  assert.equal(await inside(session, 'shell', { command: 'ls' }), 'ran');
  assert.match(await inside(session, 'shell', { command: 'git push --force' }), /denied/u);
  assert.deepEqual(ran, ['ls']);
});
