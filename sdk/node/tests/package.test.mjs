// The packages, installed in a project where nothing of this is: import, require, types' place, and the executable that came along.
import assert from 'node:assert/strict';
import childProcess from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { bin, home, program, project, root } from './support.mjs';

const out = path.join(project, 'packages');
const clean = path.join(project, 'clean');
// As a user has it: no keyward on PATH.
const PATH = process.env.PATH.split(':').filter((directory) => directory !== bin && !fs.existsSync(path.join(directory, 'keyward'))).join(':');
const env = { PATH, HOME: home, LANG: 'C.UTF-8' };
const run = (program, ...words) => childProcess.execFileSync(program, words, { cwd: clean, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

test('the packages work in a clean project, and hold what they should', () => {
  const made = childProcess.execFileSync(path.join(root, 'tools/package-npm'), [program, out], { encoding: 'utf8' }).trim().split('\n');
  assert.deepEqual(made, ['keyward-0.1.0.tgz', 'keyward-linux-x64-0.1.0.tgz']);
  fs.mkdirSync(clean);
  fs.writeFileSync(path.join(clean, 'package.json'), '{"private":true}');
  run('npm', 'install', '--silent', '--offline', '--no-audit', '--no-fund', ...made.reverse().map((name) => path.join(out, name)));
  assert.deepEqual(fs.readdirSync(path.join(clean, 'node_modules')).filter((name) => !name.startsWith('.')), ['@keyward', 'keyward']);
  const esm = `import { execFile } from 'keyward/promises'; import keyward, { Session, environ } from 'keyward';
    const { stdout } = await execFile('sh', ['-c', 'echo $KEYWARD']);
    await using_(await Session.open());
    async function using_(session) { session.on('notice', () => {}); process.stdout.write(stdout + (await session.promises.exec('echo in a session')).stdout); await session.close(); }
    if (!environ({ base: { PATH: '/bin', GH_TOKEN: 'x' } }).PATH || keyward.Session !== Session) process.exit(1);`;
  fs.writeFileSync(path.join(clean, 'a.mjs'), esm);
  assert.equal(run(process.execPath, 'a.mjs'), '1\nin a session\n');
  fs.writeFileSync(path.join(clean, 'b.cjs'), `const { spawnSync, NotInstalled } = require('keyward'); require('keyward/promises').exec; process.stdout.write(spawnSync('echo', ['required']).stdout);`);
  assert.equal(run(process.execPath, 'b.cjs'), 'required\n');
  const installed = path.join(clean, 'node_modules/keyward');
  for (const name of ['session', 'question', 'outcome', 'event', 'error']) {
    assert.deepEqual(fs.readFileSync(path.join(installed, `schema/${name}.json`)), fs.readFileSync(path.join(root, `crates/protocol/schema/${name}.json`)));
  }
  const { dependencies, scripts } = JSON.parse(fs.readFileSync(path.join(installed, 'package.json'), 'utf8'));
  assert.deepEqual([dependencies, scripts], [undefined, undefined], 'nothing is installed with it, and nothing runs at its installation');
});

test('without the package of the platform nothing runs', () => {
  fs.rmSync(path.join(clean, 'node_modules/@keyward'), { recursive: true });
  fs.writeFileSync(path.join(clean, 'c.cjs'), `try { require('keyward').spawn('touch', ['ran']) } catch (error) { console.log(error.name, error.remedy) }`);
  assert.match(run(process.execPath, 'c.cjs'), /^NotInstalled install it with `npm install keyward`/u);
  assert.equal(fs.existsSync(path.join(clean, 'ran')), false);
});
