// A stage: a project and a HOME of their own, and the executable that was built on PATH. Each file of tests is a process, and has one.
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../..', import.meta.url));
export const program = process.env.KEYWARD_TEST_PROGRAM;
if (!program) throw new Error('KEYWARD_TEST_PROGRAM names no executable: run sdk/node/test');

// Not below /tmp: that is another one in the cage, and must not help a test to pass.
const stage = fs.mkdtempSync(path.join(process.getuid() === 0 ? '/srv' : '/var/tmp', 'keyward node '));
export const home = path.join(stage, 'home');
export const project = path.join(stage, 'my project');
export const bin = path.join(stage, 'bin');
for (const directory of [home, project, bin]) fs.mkdirSync(directory);
fs.symlinkSync(program, path.join(bin, 'keyward'));
for (const name of Object.keys(process.env)) if (/^(XDG_|GITHUB|AWS|npm_)/u.test(name)) delete process.env[name];
Object.assign(process.env, { HOME: home, PATH: `${bin}:${process.env.PATH}`, LANG: 'C.UTF-8' });
process.chdir(project);
after(async () => {
  process.chdir(os.tmpdir());
  // The launcher of a session that was killed takes a moment to clean up there.
  for (let tries = 0; ; tries++) {
    try {
      return fs.rmSync(stage, { recursive: true, force: true });
    } catch (error) {
      if (tries === 50) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
});

export const keyward = await import('../index.js');

/** A session that ends with its test; its notices are kept. */
export async function open(t, options = {}) {
  const session = await keyward.Session.open(options);
  session.notices = [];
  session.on('notice', (text) => session.notices.push(text));
  t.after(() => session.close());
  return session;
}

/** Both ways to run a command: in a cage of its own, and in a session. */
export const WAYS = ['alone', 'session'];
export async function way(t, name) {
  if (name === 'session') return open(t);
  const { promises, ...own } = keyward;
  return { ...own, promises: await import('../promises.js') };
}

/** What a child prints, and how it ends. */
export function ending(child) {
  return new Promise((resolve) => {
    const events = [];
    let stdout = '';
    let stderr = '';
    child.stdout?.setEncoding('utf8').on('data', (text) => (stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text) => (stderr += text));
    let error;
    for (const name of ['spawn', 'exit', 'error']) child.on(name, (...args) => {
      events.push(name);
      if (name === 'error') error = args[0];
    });
    child.on('close', (code, signal) => resolve({ code, signal, stdout, stderr, error, events }));
  });
}
