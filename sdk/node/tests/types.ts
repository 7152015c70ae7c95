// What the types allow and what they refuse. The compiler is the test.
import { promisify } from 'node:util';
import type { ChildProcess as NodeChild } from 'node:child_process';
import { Denied, type Question, Session, environ, exec, execFile, open, spawn, spawnSync } from 'keyward';
import * as promises from 'keyward/promises';
import type { Ask } from 'keyward/protocol';

const child: NodeChild = spawn('make', ['-j2'], { net: 'open', cwd: '.', timeout: 1000 });
spawn('make').stdout.on('data', (part: Buffer) => part);
const maybe = spawn('make', [], { stdio: 'inherit' }).stdout;
// @ts-expect-error stdout may be missing
maybe.on('data', () => {});
// @ts-expect-error a cage runs as the user
spawn('make', [], { uid: 0 });
// @ts-expect-error there is no such mode
spawn('make', [], { net: 'wide' });
// @ts-expect-error there is no channel
spawn('make', [], { stdio: ['pipe', 'pipe', 'pipe', 'ipc'] });

exec('make', (error, stdout) => stdout.trim() + String(error?.code));
execFile('make', ['x'], { encoding: 'buffer' }, (_, stdout) => stdout.readUInt8(0));
const text: Promise<{ stdout: string }> = promisify(exec)('make');
const again: Promise<{ stdout: string }> = promises.execFile('make', ['x']);
const result: string = spawnSync('make', [], { encoding: 'utf8' }).stdout;

export async function all(): Promise<unknown> {
  await using session = await Session.open({
    profile: 'tools',
    onApproval: async (question: Question) => question.rule === 'git-push-force' && !question.signal.aborted,
  });
  // @ts-expect-error the cage of a session is decided when it starts
  session.spawn('make', [], { net: 'open' });
  await session.tool('add', ({ a, b }) => a + b, { schema: { type: 'object' } });
  const { stdout } = await session.promises.exec('make');
  const lines: string = stdout;
  const file: string = await open('README.md', 'utf8');
  const ask: Ask = { v: 1, do: 'signal', job: 1, signal: 15 };
  // @ts-expect-error an unknown field is refused
  const wrong: Ask = { v: 1, do: 'jobs', session: 'other' };
  try {
    session.spawn('make', [], { fresh: true });
  } catch (error) {
    if (error instanceof Denied) return [error.rule, error.reason, error.remedy, error.retryable];
  }
  return [child, text, again, result, lines, file, ask, wrong, environ({ inheritCredentials: ['GH_TOKEN'] })];
}
