// Without the executable, or with one of another version, nothing runs.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, test } from 'node:test';
import { bin, ending, keyward, program, project } from './support.mjs';
import executable from '../lib/executable.cjs';

const { NotInstalled, Session, VersionMismatch } = keyward;
const system = process.env.PATH;
const scripts = path.join(project, 'scripts');
fs.mkdirSync(scripts);

beforeEach(() => executable.forget());

/** Every call that could start something: each has to fail, and the command must not have run. */
async function nothingRuns(Expected) {
  const touch = ['touch', [path.join(project, 'ran')]];
  const asynchronous = [
    () => keyward.spawn(...touch),
    () => keyward.spawn(...touch, { stdio: 'inherit' }),
    () => keyward.exec(`touch ${touch[1][0]}`),
    () => keyward.execFile(...touch),
  ];
  for (const call of asynchronous) {
    let error;
    try {
      ({ error } = await ending(call()));
    } catch (thrown) {
      error = thrown;
    }
    assert.ok(error instanceof Expected, `${call}: ${error}`);
    assert.match(error.remedy, /npm install keyward/u);
  }
  for (const call of [() => keyward.spawnSync(...touch).error, () => keyward.execFileSync(...touch), () => keyward.execSync('true')]) {
    let error;
    try {
      error = call();
    } catch (thrown) {
      error = thrown;
    }
    assert.ok(error instanceof Expected, `${call}: ${error}`);
  }
  await assert.rejects(Session.open(), Expected);
  await assert.rejects(Session.attach('work'), Expected);
  await assert.rejects(keyward.open('x'), Expected);
  assert.equal(fs.existsSync(touch[1][0]), false);
}

test('without the executable', async () => {
  process.env.PATH = system.split(':').filter((directory) => directory !== bin && !fs.existsSync(path.join(directory, 'keyward'))).join(':');
  await nothingRuns(NotInstalled);
  // A directory that is not named from the root is not searched: a command may have written there.
  process.chdir(scripts);
  fs.symlinkSync(program, path.join(scripts, 'keyward'));
  process.env.PATH = `.:${process.env.PATH}`;
  executable.forget();
  await nothingRuns(NotInstalled);
  process.chdir(project);
});

/** An executable of ours that says something else. */
function other(script) {
  const directory = fs.mkdtempSync(path.join(project, 'other-'));
  fs.writeFileSync(path.join(directory, 'keyward'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  process.env.PATH = `${directory}:${system}`;
  executable.forget();
}

test('with an executable of another version', async () => {
  other(`[ "$1" = version ] && { echo '{"v":1,"keyward":"9.0.0","protocol":2}'; exit 0; }; touch '${project}/ran'`);
  await nothingRuns(VersionMismatch);
});

test('with an executable that does not know the question', async () => {
  other(`[ "$1" = version ] && { echo "unexpected argument '--json'" >&2; exit 120; }; touch '${project}/ran'`);
  await nothingRuns(VersionMismatch);
  other(`[ "$1" = version ] && { echo hello; exit 0; }; touch '${project}/ran'`);
  await nothingRuns(VersionMismatch);
});

test('with a bridge that speaks something else, and no session is left behind', async () => {
  const version = `[ "$1" = version ] && exec ${JSON.stringify(program)} "$@"`;
  const start = `[ "$2" = start ] && { echo '{"v":1,"session":"x"}'; exit 0; }`;
  for (const [says, Expected] of [[`'{"v":2,"is":"bridge"}'`, VersionMismatch], ['hello', VersionMismatch], [`'{"v":1,"is":"refused","exit":120,"code":"session-unknown","fact":"f","remedy":"r"}'`, keyward.KeywardError]]) {
    other(`${version}\n${start}\necho ${says}; cat >/dev/null`);
    await assert.rejects(Session.open(), Expected, says);
  }
  other(`${version}\n${start}\n[ "$2" = stop ] && echo "$3" >> '${project}/stopped'\nexit 1`);
  await assert.rejects(Session.open(), keyward.SessionLost);
  assert.equal(fs.readFileSync('stopped', 'utf8'), 'x\n');
});
