// The shapes of node:child_process, in a cage of its own and in a session.
import assert from 'node:assert/strict';
import childProcess from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { WAYS, ending, home, keyward, open, project, way } from './support.mjs';

for (const name of WAYS) {
  test(`${name}: streams, events and the exit code are those of the command`, async (t) => {
    const { spawn } = bound(await way(t, name));
    const child = spawn('sh', ['-c', 'read word; echo got $word; echo problem >&2; exit 7']);
    assert.equal(typeof child.pid, 'number');
    assert.ok(child instanceof childProcess.ChildProcess);
    child.stdin.end('it\n');
    const ended = await ending(child);
    assert.deepEqual(ended, { code: 7, signal: null, stdout: 'got it\n', stderr: 'problem\n', error: undefined, events: ['spawn', 'exit'] });
    assert.deepEqual([child.exitCode, child.signalCode, child.killed], [7, null, false]);
  });

  test(`${name}: the command is in a cage`, async (t) => {
    const { promises } = await way(t, name);
    process.env.AWS_SECRET_ACCESS_KEY = 'the secret';
    fs.mkdirSync(`${home}/.ssh`, { recursive: true });
    fs.writeFileSync(`${home}/.ssh/id_ed25519`, 'a key');
    // The control: outside it can be read.
    assert.equal(childProcess.execSync('cat ~/.ssh/id_ed25519; echo $AWS_SECRET_ACCESS_KEY').toString(), 'a keythe secret\n');
    const { stdout } = await promises.exec('cat ~/.ssh/id_ed25519 2>/dev/null; echo "$AWS_SECRET_ACCESS_KEY"; echo $KEYWARD; pwd');
    assert.equal(stdout, `\n1\n${project}\n`);
    delete process.env.AWS_SECRET_ACCESS_KEY;
  });

  test(`${name}: a signal ends it, by kill, by time and by an AbortSignal`, async (t) => {
    const { spawn, promises } = bound(await way(t, name));
    const killed = spawn('sleep', ['30']);
    killed.once('spawn', () => assert.equal(killed.kill(), true));
    const ended = await ending(killed);
    assert.deepEqual([ended.code, ended.signal, killed.killed], [null, 'SIGTERM', true]);
    assert.equal(killed.kill(), false, 'it has ended');
    const late = await ending(spawn('sleep', ['30'], { timeout: 100, killSignal: 'SIGKILL' }));
    assert.deepEqual([late.code, late.signal], [null, 'SIGKILL']);
    const controller = new AbortController();
    const aborted = ending(spawn('sleep', ['30'], { signal: controller.signal }));
    setTimeout(() => controller.abort(), 100);
    const { error, signal } = await aborted;
    assert.deepEqual([error.name, error.code, signal], ['AbortError', 'ABORT_ERR', 'SIGTERM']);
    await assert.rejects(promises.execFile('sleep', ['30'], { timeout: 100 }), { killed: true, signal: 'SIGTERM', code: null });
    await assert.rejects(promises.exec('sleep 30', { signal: AbortSignal.timeout(100) }), { name: 'AbortError' });
    await assert.rejects(promises.exec('sleep 30', { signal: AbortSignal.abort() }), { name: 'AbortError' });
  });

  test(`${name}: a command that does not exist or cannot be executed is the error of Node`, async (t) => {
    const { spawn, promises } = bound(await way(t, name));
    const { error, events, code } = await ending(spawn('nosuch-program', ['x']));
    const { errno, syscall, path, spawnargs } = error;
    assert.deepEqual({ code: error.code, errno, syscall, path, spawnargs }, { code: 'ENOENT', errno: -2, syscall: 'spawn nosuch-program', path: 'nosuch-program', spawnargs: ['x'] });
    assert.ok(error instanceof keyward.KeywardError && error.remedy.length > 0);
    assert.ok(!events.includes('exit'));
    assert.equal(code, -2);
    fs.writeFileSync('plain', 'text', { mode: 0o644 });
    await assert.rejects(promises.execFile('./plain'), { code: 'EACCES', errno: -13 });
    await assert.rejects(promises.exec('true', { cwd: '/nosuch-directory' }), { code: 'ENOENT' });
  });

  test(`${name}: what fails is an error with the output`, async (t) => {
    const { promises, execFile } = bound(await way(t, name));
    await assert.rejects(promises.exec('echo out; echo err >&2; exit 3'), { code: 3, killed: false, signal: null, cmd: 'echo out; echo err >&2; exit 3', stdout: 'out\n', stderr: 'err\n' });
    await assert.rejects(promises.exec('kill -9 $$'), { code: null, signal: 'SIGKILL' });
    await assert.rejects(promises.exec('yes', { maxBuffer: 100 }), { name: 'RangeError', code: 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER', stdout: 'y\n'.repeat(50) });
    const { stdout } = await promises.execFile('printf', ['\\377'], { encoding: 'buffer' });
    assert.deepEqual([...stdout], [255]);
    const plain = await new Promise((resolve) => execFile('echo', ['a b'], (error, out, err) => resolve([error, out, err])));
    assert.deepEqual(plain, [null, 'a b\n', '']);
    const promise = promises.exec('true');
    assert.equal(typeof promise.child.pid, 'number');
    await promise;
  });

  test(`${name}: directory, variables and shell are those that were asked for`, async (t) => {
    const { promises } = await way(t, name);
    fs.mkdirSync('below', { recursive: true });
    assert.equal((await promises.exec('pwd', { cwd: 'below' })).stdout, `${project}/below\n`);
    assert.equal((await promises.exec('pwd', { cwd: new URL(`file://${encodeURI(project)}/below`) })).stdout, `${project}/below\n`);
    process.chdir('below');
    assert.equal((await promises.exec('pwd')).stdout, `${project}/below\n`);
    process.chdir('..');
    const env = { ...process.env, GREETING: "it's a b" };
    assert.equal((await promises.exec('echo "$GREETING"', { env })).stdout, "it's a b\n");
    process.env.TZ = 'UTC';
    const { TZ, ...without } = process.env;
    assert.equal((await promises.exec('echo "$TZ"', { env: without })).stdout, '\n', 'what env leaves out is left out');
    // Not a variable whose value the caller wrote down: a credential is handed over by name.
    const given = () => promises.exec('echo "$OPENAI_API_KEY"', { env: { ...process.env, OPENAI_API_KEY: 'x' } });
    assert.throws(given, (error) => error instanceof keyward.Denied && error.rule === 'registry' && /inheritCredentials/u.test(error.remedy));
    assert.equal((await promises.exec('echo $0', { shell: '/bin/bash' })).stdout, '/bin/bash\n');
    assert.equal((await promises.execFile('echo', ['$HOME', '*', 'a  b'])).stdout, '$HOME * a  b\n');
  });

  test(`${name}: stdio can be ignored, inherited, a file or another stream`, async (t) => {
    const { spawn } = bound(await way(t, name));
    const ignored = spawn('cat', { stdio: 'ignore' });
    assert.deepEqual(ignored.stdio, [null, null, null]);
    assert.equal((await ending(ignored)).code, 0);
    const file = fs.openSync('written', 'w+');
    const { code } = await ending(spawn('sh', ['-c', 'echo to a file; echo and stderr >&2'], { stdio: ['ignore', file, file] }));
    assert.equal(code, 0);
    assert.equal(fs.readFileSync('written', 'utf8'), 'to a file\nand stderr\n');
    const failed = await ending(spawn('sh', ['-c', 'exit 4'], { stdio: ['ignore', file, 'pipe'] }));
    assert.equal(failed.code, 4);
    const missing = await ending(spawn('nosuch-program', { stdio: ['ignore', file, file] }));
    assert.equal(missing.error.code, 'ENOENT');
    fs.closeSync(file);
  });

  test(`${name}: what cannot be done in a cage is refused with the reason`, async (t) => {
    const { spawn, fork } = bound(await way(t, name));
    assert.throws(() => fork('x.js'), /a way out of the cage/u);
    assert.throws(() => spawn('true', { uid: 0 }), { code: 'ERR_INVALID_ARG_VALUE' });
    assert.throws(() => spawn('true', { argv0: 'x' }), { code: 'ERR_INVALID_ARG_VALUE' });
    assert.throws(() => spawn('true', { stdio: ['pipe', 'pipe', 'pipe', 'ipc'] }), /IPC/u);
    assert.throws(() => spawn('true', { stdio: ['pipe', 'pipe', 'pipe', 'pipe'] }), /descriptors 0, 1 and 2/u);
    for (const wrong of [[], [''], [1], ['a\0b'], ['true', 1], ['true', ['a\0']], ['true', { cwd: 1 }], ['true', { timeout: -1 }], ['true', { killSignal: 'SIGNOT' }], ['true', { stdio: 'other' }]]) {
      assert.throws(() => spawn(...wrong), (error) => /^ERR_/u.test(error.code), JSON.stringify(wrong));
    }
  });

  test(`${name}: synchronous calls`, async (t) => {
    const { spawnSync, execFileSync, execSync } = bound(await way(t, name));
    const result = spawnSync('sh', ['-c', 'cat; echo err >&2; exit 5'], { input: 'in', encoding: 'utf8' });
    assert.deepEqual([result.status, result.signal, result.stdout, result.stderr, result.output], [5, null, 'in', 'err\n', [null, 'in', 'err\n']]);
    assert.equal(execSync('echo $((1 + 1))').toString(), '2\n');
    assert.equal(execFileSync('echo', ['x'], { encoding: 'utf8' }), 'x\n');
    assert.throws(() => execSync('exit 6', { stdio: 'pipe' }), { status: 6 });
    assert.throws(() => execFileSync('nosuch-program', [], { stdio: 'pipe' }), { code: 'ENOENT' });
    assert.equal(spawnSync('sleep', ['30'], { timeout: 200 }).error.code, 'ETIMEDOUT');
    assert.equal(spawnSync('sh', ['-c', 'kill -TERM $$']).signal, 'SIGTERM');
  });

  test(`${name}: much output, much input, and many at once`, async (t) => {
    const { spawn, promises } = bound(await way(t, name));
    const child = spawn('cat');
    const block = Buffer.alloc(1 << 20, 'x');
    let length = 0;
    child.stdout.on('data', (part) => (length += part.length));
    for (let i = 0; i < 8; i++) child.stdin.write(block);
    child.stdin.end();
    const [code] = await new Promise((resolve) => child.on('close', (...all) => resolve(all)));
    assert.deepEqual([code, length], [0, 8 << 20]);
    const all = await Promise.all(Array.from({ length: 40 }, (_, i) => promises.execFile('echo', [`${i}`])));
    assert.deepEqual(all.map(({ stdout }) => stdout), Array.from({ length: 40 }, (_, i) => `${i}\n`));
  });
}

test('both module systems give the same objects', async () => {
  const required = createRequire(import.meta.url)('../lib/index.cjs');
  assert.equal(required.Session, keyward.Session);
  assert.equal(required.Denied, keyward.Denied);
  const { stdout } = await promisify(required.execFile)('echo', ['x']);
  assert.equal(stdout, 'x\n');
});

test('the pid of a command in a session names no process of this machine', async (t) => {
  const session = await open(t);
  const child = session.spawn('sleep', ['30']);
  assert.ok(child.pid > 4194304);
  assert.throws(() => process.kill(child.pid, 0), { code: 'ESRCH' });
  await new Promise((resolve) => child.once('spawn', resolve));
  assert.ok(child.job > 0);
  child.kill('SIGKILL');
  assert.equal((await ending(child)).signal, 'SIGKILL');
});

test('a signal that is sent before the command has started reaches it then', async (t) => {
  const session = await open(t);
  const child = session.spawn('sleep', ['30']);
  assert.equal(child.kill('SIGINT'), true);
  assert.equal((await ending(child)).signal, 'SIGINT');
});

test('a command that is ended before it was sent does not run', async (t) => {
  const session = await open(t);
  // More at once than streams are connected in advance.
  const children = Array.from({ length: 12 }, (_, n) => session.spawn('sh', ['-c', `echo ran > ran-${n}; sleep 30`]));
  const ends = children.map(ending);
  for (const child of children) assert.equal(child.kill('SIGKILL'), true);
  for (const { signal, code } of await Promise.all(ends)) assert.deepEqual([code, signal], [null, 'SIGKILL']);
  assert.equal(fs.existsSync('ran-11'), false);
  assert.equal((await session.promises.exec('echo on')).stdout, 'on\n');
});

test('what is printed comes behind the word that the command has started', async (t) => {
  const session = await open(t);
  for (let round = 0; round < 30; round++) {
    const order = [];
    const child = session.spawn('echo', ['x']);
    child.on('spawn', () => order.push('spawn'));
    child.stdout.on('data', () => order.push('data'));
    await new Promise((resolve) => child.on('close', resolve));
    assert.deepEqual(order, ['spawn', 'data']);
  }
});

test('options that something has put into Object.prototype are not read', async (t) => {
  const session = await open(t);
  const { exec } = await import('../promises.js');
  Object.assign(Object.prototype, { cwd: '/nosuch', net: 'open', shell: '/nosuch', uid: 7 });
  try {
    for (const run of [exec, session.promises.exec]) assert.equal((await run('pwd')).stdout, `${project}\n`);
    assert.equal(`${keyward.execFileSync('pwd')}`, `${project}\n`);
  } finally {
    for (const name of ['cwd', 'net', 'shell', 'uid']) delete Object.prototype[name];
  }
});

test('a command that is longer than a message is refused', async (t) => {
  const session = await open(t);
  const { error } = await ending(session.spawn('echo', ['x'.repeat(200_000)]));
  assert.deepEqual([error.code, error.syscall], ['E2BIG', 'spawn echo']);
  assert.equal((await session.promises.exec('echo still here')).stdout, 'still here\n');
});

/** Methods that need their object, as functions. */
function bound(from) {
  if (!(from instanceof keyward.Session)) return from;
  const names = ['spawn', 'exec', 'execFile', 'fork', 'spawnSync', 'execFileSync', 'execSync'];
  return { promises: from.promises, ...Object.fromEntries(names.map((name) => [name, from[name].bind(from)])) };
}

test('the options are the flags of keyward run, each of them', async () => {
  const { FLAGS, NAMES } = (await import('../lib/flags.cjs')).default;
  const help = childProcess.execFileSync('keyward', ['run', '--help'], { encoding: 'utf8' });
  const told = new Set([...help.matchAll(/^ +(?:-\w, )?--([a-z][a-z-]*)/gmu)].map(([, name]) => name));
  // What this package uses itself, and what node:child_process has an option for.
  for (const own of ['json', 'outcome-fd', 'verbose', 'quiet', 'help', 'cwd', 'env']) told.delete(own);
  assert.deepEqual(Object.keys(FLAGS).map((name) => NAMES[name] ?? name).sort(), [...told].sort());
});

test('a limit on time is that of the cage, and a word that the launcher does not take is an error', async () => {
  const over = await ending(keyward.spawn('sleep', ['60'], { wall: 300 }));
  assert.equal(over.code, 124);
  for (const wrong of [0, -1, '5s', Infinity]) assert.throws(() => keyward.spawn('true', [], { wall: wrong }), { code: 'ERR_INVALID_ARG_TYPE' });
  const { error, events } = await ending(keyward.spawn('touch', ['ran'], { net: 'sideways' }));
  assert.deepEqual([error.code, error.exit, events.includes('exit')], ['usage', 120, false]);
  assert.equal(keyward.spawnSync('touch', ['ran'], { net: 'sideways' }).error.code, 'usage');
  assert.throws(() => keyward.execFileSync('touch', ['ran'], { net: 'sideways', stdio: 'pipe' }), { code: 'usage' });
  await assert.rejects(keyward.Session.open({ net: 'sideways' }), (wrong) => wrong.exit === 120 && wrong.code === 'usage' && wrong.remedy !== '');
  assert.equal(fs.existsSync('ran'), false);
});
