// Runs Node's own tests of child_process against this package, without a session and in one. What fails has to be what upstream-left-out.txt
// lists, each with its reason: no more and no less.
//
//   node tests/upstream.mjs DIRECTORY [PART OF A NAME]     DIRECTORY holds test/{common,fixtures,parallel} of Node's source
import childProcess from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const [source, part = ''] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));
const program = process.env.KEYWARD_TEST_PROGRAM;
const stage = fs.mkdtempSync(path.join(process.getuid() === 0 ? '/srv' : '/var/tmp', 'keyward-upstream-'));
const tree = path.join(stage, 'tree');
for (const name of ['bin', 'home']) fs.mkdirSync(path.join(stage, name));
fs.symlinkSync(program, path.join(stage, 'bin/keyward'));
for (const name of ['common', 'fixtures', 'parallel']) fs.cpSync(path.join(source, 'test', name), path.join(tree, 'test', name), { recursive: true });

const names = fs.readdirSync(path.join(tree, 'test/parallel')).filter((name) => name.startsWith('test-child-process-') && name.includes(part)).sort();
const ways = ['alone', 'session'];

function run(name, way, slot) {
  const file = path.join(tree, 'test/parallel', name);
  const flags = /^\/\/ Flags: (.*)$/mu.exec(fs.readFileSync(file, 'utf8'))?.[1].split(' ') ?? [];
  const env = {
    PATH: `${stage}/bin:${path.dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
    HOME: path.join(stage, 'home'),
    LANG: 'C.UTF-8',
    KEYWARD_UPSTREAM: way,
    KEYWARD_UPSTREAM_TREE: tree,
    TEST_THREAD_ID: `${slot}`,
  };
  return new Promise((resolve) => {
    const words = [...flags, '--no-warnings', '--import', path.join(here, 'upstream-hook.mjs'), file];
    childProcess.execFile(process.execPath, words, { env, cwd: tree, timeout: 90_000, killSignal: 'SIGKILL', maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      resolve({ name, way, failed: error !== null, words: `${stdout}${stderr}`, late: error?.killed ?? false });
    });
  });
}

const work = names.flatMap((name) => ways.map((way) => [name, way]));
const results = [];
await Promise.all(Array.from({ length: 3 }, async (_, slot) => {
  while (work.length > 0) results.push(await run(...work.shift(), slot));
}));

const list = fs.readFileSync(path.join(here, 'upstream-left-out.txt'), 'utf8').split('\n').filter((line) => line && !line.startsWith('#'));
const leftOut = new Map(list.map((line) => [line.split(/\s+/u).slice(0, 2).join(' '), line]));
const expected = (name, way) => leftOut.has(`${name} ${way}`) || leftOut.has(`${name} both`);
let wrong = 0;
for (const { name, way, failed, words, late } of results.sort((one, other) => (one.name < other.name ? -1 : 1))) {
  if (failed === expected(name, way)) continue;
  wrong += 1;
  console.log(failed ? `FAILS and is not listed: ${name} ${way}${late ? ' (it hangs)' : ''}\n${words.split('\n').slice(0, part ? 60 : 14).join('\n')}` : `PASSES and is listed: ${name} ${way}`);
}
const passed = results.filter(({ failed }) => !failed).length;
console.log(`${names.length} of Node's own tests, twice: ${passed} passed, ${results.length - passed} left out or wrong, ${wrong} wrong`);
fs.rmSync(stage, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
process.exit(wrong === 0 ? 0 : 1);
