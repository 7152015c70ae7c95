// The helpers that need no executable, beside the launcher's own decision.
import assert from 'node:assert/strict';
import childProcess from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { home, keyward, project, root } from './support.mjs';
import environment from '../lib/environ.cjs';
import tables from '../lib/registry.cjs';

const { environ, explainEnviron, profileHome, open } = keyward;
const { decide } = environment;
const shared = JSON.parse(fs.readFileSync(path.join(root, 'sdk/cases/environment.json'), 'utf8'));

test('the shared cases are decided as by the launcher, on every platform', () => {
  assert.ok(shared.cases.length > 25);
  for (const given of shared.cases) {
    const decision = decide(given.environment, {
      platform: given.platform,
      inheritCredentials: given.inherit_credentials ?? [],
      pass: given.pass ?? [],
      notSecret: given.not_secret ?? [],
      dangerousLoaderEnv: given.dangerous_loader_env ?? [],
      set: given.set ?? {},
      trust: given.trust,
      net: given.net,
    });
    const rows = (all) => all.map(({ name, rule }) => [name, rule]);
    assert.deepEqual([rows(decision.passed), rows(decision.dropped), decision.missing], [given.passed, given.dropped, given.missing], given.name);
  }
});

test('it needs no executable', () => {
  const script = `
    const { environ, profileHome } = require(${JSON.stringify(path.join(root, 'sdk/node/lib/index.cjs'))});
    const made = environ({ home: profileHome('builder') });
    console.log(JSON.stringify([Object.keys(made).includes('GH_TOKEN'), made.HOME]));`;
  const env = { PATH: '', HOME: home, GH_TOKEN: 'x' };
  const told = JSON.parse(childProcess.execFileSync(process.execPath, ['-e', script], { env }));
  assert.deepEqual(told, [false, path.join(home, '.local/state/keyward/plain-homes/builder/executor')]);
});

test('a child gets no credential unless it is named', () => {
  const base = { PATH: '/usr/bin', OPENAI_API_KEY: 'x', GH_TOKEN: 'y' };
  assert.deepEqual(Object.keys(environ({ base })).filter((name) => name in base), ['PATH']);
  const made = environ({ base, inheritCredentials: ['GH_TOKEN'] });
  assert.deepEqual([made.GH_TOKEN, made.OPENAI_API_KEY], ['y', undefined]);
  for (const wrong of [{ inheritCredentials: 'GH_TOKEN' }, { trust: 'friend' }, { net: 'rules' }, { platform: 'plan9' }, null]) assert.throws(() => environ(wrong));
});

/** Numbers that are the same in every run. */
function drawing(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function same(entries, passing, net) {
  const words = ['env', '--json', '--net', net, '--trust', 'executor', ...passing.flatMap((name) => ['--pass', name])];
  const told = JSON.parse(childProcess.execFileSync('keyward', words, { env: { ...entries, HOME: home, PATH: process.env.PATH }, maxBuffer: 1 << 26 }));
  const mine = explainEnviron({ base: { ...entries, HOME: home, PATH: process.env.PATH }, pass: passing, net });
  const rows = (all) => all.map(({ name, rule }) => `${name} ${rule}`).sort();
  assert.deepEqual(rows(mine.passed), rows(told.passed));
  assert.deepEqual(rows(mine.dropped), rows(told.dropped));
  for (const { name, value } of told.passed) if (value !== undefined) assert.equal(mine.passed.find((row) => row.name === name).value, value);
}

test('made-up values are decided as by the launcher', () => {
  const draw = drawing(17);
  const { values } = JSON.parse(fs.readFileSync(path.join(root, 'sdk/registry.json'), 'utf8'));
  const parts = [...values.map(([, pattern]) => pattern).join(' ').matchAll(/[A-Za-z0-9]+[_-]+/gu)].map(([part]) => part);
  parts.push('://', '@', ':', '=', 'password', 'token', ' ', '"', '/', '.', '-', 'eyJ', 'sig=', 'pwd=', 'bearer ', 'a', 'B', '7', 'word', 'a1B2c3D4e5', '0123456789abcdef', '-----BEGIN ', 'PRIVATE KEY', '?', '#', 'x-api-key:', '$', '{', ']', '\u00e4');
  for (let round = 0; round < 6; round++) {
    const entries = {};
    for (let at = 0; at < 400; at++) entries[`V${at}`] = Array.from({ length: 1 + draw(9) }, () => parts[draw(parts.length)]).join('');
    same(entries, Object.keys(entries), ['open', 'none'][draw(2)]);
  }
});

test('made-up names are decided as by the launcher', () => {
  const draw = drawing(4);
  const { known } = JSON.parse(fs.readFileSync(path.join(root, 'sdk/registry.json'), 'utf8'));
  const words = ['KEY', 'AUTH', 'AUTHOR', 'PASS', 'PATH', 'LC_', 'LD_', 'GIT_', 'PWD', '_', 'X', 'PIN', 'http_proxy', 'npm_'];
  for (let at = 0; at < 60; at++) words.push(known[draw(known.length)][0].replace('*', 'X'));
  const entries = {};
  for (let at = 0; at < 600; at++) {
    const name = Array.from({ length: 1 + draw(3) }, () => words[draw(words.length)]).join('');
    if (!/^(HOME|PATH|LANG|LC_ALL|LC_CTYPE|PWD|[0-9].*)$/u.test(name)) entries[draw(2) ? name : name.toLowerCase()] = 'x';
  }
  const passing = Object.keys(entries).filter((name) => !tables.registry().valueShape(name) && draw(4) === 0).slice(0, 60);
  same(entries, passing, 'open');
});

test('a command in a cage has these variables and those of the cage', async () => {
  const base = { PATH: '/usr/bin:/bin', HOME: home, LANG: 'C', CI: '1', EDITOR: 'vi', OPENAI_API_KEY: 'x', RUST_LOG: 'info', TZ: 'UTC' };
  const shown = childProcess.execFileSync(path.join(process.env.PATH.split(':')[0], 'keyward'), ['run', '--pass', 'RUST_LOG', '--net', 'none', '--', 'env'], { env: base });
  const ofTheCage = new Set(['PATH', 'HOME', 'PWD', 'TMPDIR', 'XDG_RUNTIME_DIR', 'KEYWARD', 'SHLVL', '_']);
  const others = (names) => names.filter((name) => !ofTheCage.has(name)).sort();
  const there = `${shown}`.trim().split('\n').map((line) => line.split('=')[0]);
  assert.deepEqual(others(there), others(Object.keys(environ({ base, pass: ['RUST_LOG'], net: 'none', trust: 'unknown' }))));
});

test('the HOME of a profile has the logins that are named, as links, and nothing that is there is replaced', () => {
  const real = fs.mkdtempSync(path.join(project, 'home-'));
  const variables = { HOME: real };
  fs.mkdirSync(path.join(real, '.config/gh'), { recursive: true });
  fs.writeFileSync(path.join(real, '.config/gh/hosts.yml'), 'login');
  const at = profileHome('builder', { tools: ['gh'], environ: variables, platform: 'linux' });
  assert.equal(at, path.join(real, '.local/state/keyward/plain-homes/builder/executor'));
  assert.equal(fs.statSync(at).mode & 0o777, 0o700);
  assert.equal(fs.readFileSync(path.join(at, '.config/gh/hosts.yml'), 'utf8'), 'login');
  profileHome('builder', { environ: variables, platform: 'linux' });
  assert.equal(fs.existsSync(path.join(at, '.config/gh/hosts.yml')), false, 'a login that is not named any more is gone');
  fs.mkdirSync(path.join(at, '.config/gh'), { recursive: true });
  fs.writeFileSync(path.join(at, '.config/gh/hosts.yml'), 'its own');
  profileHome('builder', { tools: ['gh'], environ: variables, platform: 'linux' });
  assert.equal(fs.readFileSync(path.join(at, '.config/gh/hosts.yml'), 'utf8'), 'its own');
  // A child that puts a link in the way cannot have us write elsewhere.
  const other = profileHome('other', { environ: variables, platform: 'linux' });
  fs.mkdirSync(path.join(real, 'outside'));
  fs.symlinkSync(path.join(real, 'outside'), path.join(other, '.config'));
  profileHome('other', { tools: ['gh'], environ: variables, platform: 'linux' });
  assert.deepEqual(fs.readdirSync(path.join(real, 'outside')), []);
  for (const [name, options] of [['../x', {}], ['x', { tools: ['nosuch'] }], ['x', { tools: ['gh'], trust: 'tool' }], ['x', { tools: 'gh' }], ['x', { trust: 'friend' }]]) {
    assert.throws(() => profileHome(name, { environ: variables, platform: 'linux', ...options }), undefined, name);
  }
});

test('the same on fixtures of macOS and Windows', () => {
  const real = fs.mkdtempSync(path.join(project, 'home-'));
  fs.mkdirSync(path.join(real, 'Library/Keychains'), { recursive: true });
  const mac = profileHome('builder', { environ: { HOME: real }, platform: 'macos' });
  assert.equal(fs.readlinkSync(path.join(mac, 'Library/Keychains')), path.join(real, 'Library/Keychains'));
  const other = profileHome('builder', { environ: { HOME: real }, platform: 'macos', trust: 'tool' });
  assert.equal(fs.existsSync(path.join(other, 'Library/Keychains')), false);
  const windows = profileHome('builder', { environ: { USERPROFILE: real, LOCALAPPDATA: path.join(real, 'Local') }, platform: 'windows' });
  assert.equal(windows, path.join(real, 'Local/keyward/plain-homes/builder/executor'));
  const made = environ({ base: { HOMEDRIVE: 'C:' }, home: 'D:\\h', platform: 'windows' });
  assert.deepEqual([made.HOME, made.USERPROFILE, made.HOMEDRIVE], ['D:\\h', 'D:\\h', undefined]);
});

test('the guarded read gives a file, and refuses one that holds a credential', async () => {
  fs.writeFileSync('plain.txt', 'h\u00e9llo');
  assert.equal(await open('plain.txt', 'utf8'), 'h\u00e9llo');
  assert.deepEqual(await open('plain.txt'), Buffer.from('h\u00e9llo'));
  assert.equal(await open('plain.txt', { encoding: 'utf8', max: 1 }), 'h');
  fs.writeFileSync('.env', 'TOKEN=x');
  fs.symlinkSync('.env', 'innocent');
  for (const name of ['.env', 'innocent']) {
    await assert.rejects(open(name), (error) => error instanceof keyward.Denied && /settings with secrets/u.test(error.message) && error.remedy.length > 0);
  }
  await assert.rejects(open('nosuch'), keyward.KeywardError);
});
