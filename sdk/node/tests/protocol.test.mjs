// The published protocol: types from the schema, and the golden files replayed through a bridge that the test plays.
import assert from 'node:assert/strict';
import childProcess from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { ending, keyward, program, project, root } from './support.mjs';
import executable from '../lib/executable.cjs';
import schemas from '../lib/schema.cjs';

const protocol = path.join(root, 'crates/protocol');
const golden = (name) => JSON.parse(fs.readFileSync(path.join(protocol, 'golden', `${name}.json`), 'utf8'));
const schema = JSON.parse(fs.readFileSync(path.join(protocol, 'schema/session.json'), 'utf8'));
const checker = new schemas.Checker(schema);
const kinds = (channel) => fs.readdirSync(path.join(protocol, 'golden')).filter((name) => name.startsWith(`${channel}.`)).map((name) => name.replace(/\.json$/u, ''));

test('the types are those of the schema', () => {
  const made = childProcess.execFileSync(process.execPath, [path.join(root, 'sdk/node/tools/types.mjs')], { encoding: 'utf8' });
  assert.equal(fs.readFileSync(path.join(root, 'sdk/node/protocol.d.ts'), 'utf8'), made, 'run `node tools/types.mjs > protocol.d.ts` in sdk/node');
});

test('the checker of this package reads the schema, and every golden file fits it', () => {
  for (const channel of ['ask', 'answer']) {
    assert.ok(kinds(channel).length > 10);
    for (const name of kinds(channel)) assert.equal(checker.check(schema.$defs[channel], golden(name)), undefined, name);
  }
  assert.notEqual(checker.check(schema.$defs.ask, { v: 1, do: 'jobs', session: 'other' }), undefined);
  assert.notEqual(checker.check(schema.$defs.ask, { v: 2, do: 'jobs' }), undefined);
});

// A program that is called keyward and plays a session: it writes down each message, and answers with golden files.
const played = path.join(project, 'played');
fs.mkdirSync(played);
fs.writeFileSync(path.join(played, 'keyward'), `#!${process.execPath}
const { execFileSync } = require('node:child_process');
const fs = require('node:fs'), net = require('node:net'), path = require('node:path');
const [what, which] = process.argv.slice(2);
if (what === 'version') process.stdout.write(execFileSync(${JSON.stringify(program)}, ['version', '--json']));
else if (which === 'start') console.log('{"v":1,"session":"played"}');
else {
  const golden = (name) => JSON.parse(fs.readFileSync(path.join(${JSON.stringify(protocol)}, 'golden', name + '.json'), 'utf8'));
  const asked = path.join(${JSON.stringify(played)}, 'asked');
  const place = path.join(fs.mkdtempSync('/tmp/played-'), 's');
  const say = (channel, message, document) => console.log(JSON.stringify({ channel, message, document }));
  const token = '0'.repeat(32), streams = new Map(), ended = new Set();
  // A stream may be announced after the message that names it has come.
  const announced = (socket, number) => (ended.has(number) ? socket.end() : streams.set(number, socket));
  const end = (number) => (streams.has(number) ? streams.get(number).end() : ended.add(number));
  net.createServer((socket) => socket.once('data', (data) => announced(socket, Number(String(data).split(' ')[1]))).on('error', () => {})).listen(place, () => {
    console.log(JSON.stringify({ v: 1, is: 'bridge', keyward: '0.1.0', socket: place, token }));
    let rest = '', job = golden('answer.started').job;
    process.stdin.on('data', (data) => {
      const lines = (rest + data).split('\\n');
      rest = lines.pop();
      for (const line of lines) {
        const { channel, message, streams: named } = JSON.parse(line);
        fs.appendFileSync(asked, JSON.stringify(message) + '\\n');
        if (message.do === 'hello') say(channel, golden('answer.hello'));
        if (message.do === 'jobs') say(channel, { ...golden('answer.jobs'), later: 'a field of a later version' });
        if (message.do === 'exec' && message.argv[0] === 'refused') say(channel, golden('answer.refused'));
        else if (message.do === 'exec' && message.argv[0] === 'unknown') say(channel, { v: 1, is: 'paused', job: 1 });
        else if (message.do === 'exec') {
          say(channel, { ...golden('answer.started'), job });
          const last = { echo: 'answer.ended', second: 'answer.ended.2', third: 'answer.ended.3', sleep: undefined }[message.argv[0]];
          for (const stream of (named || []).filter(Boolean)) end(stream);
          if (last) say(channel, { ...golden('answer.said') }), say(channel, { ...golden(last), job });
          job += 1;
        }
        if (['signal', 'kill', 'offer', 'watch', 'own'].includes(message.do)) say(channel, golden('answer.done'));
        if (message.do === 'signal') say(${4}, { ...golden('answer.ended'), job: message.job, exit: 143, signal: 15 });
        if (message.do === 'watch') say(channel, golden('answer.question'), { argv: ['git', 'push', '--force'] });
        if (message.do === 'decide') say(channel, golden('answer.done')), say(channel, golden('answer.settled'));
        if (message.do === 'offer') say(channel, golden('answer.called'));
        if (message.do === 'call') say(channel, golden('answer.returned'));
      }
    });
    process.stdin.on('end', () => { fs.rmSync(path.dirname(place), { recursive: true }); process.exit(0); });
  });
}
`, { mode: 0o755 });
process.env.PATH = `${played}:${process.env.PATH}`;

test('golden transcripts are replayed', async () => {
  executable.forget();
  const questions = [];
  const notices = [];
  const session = await keyward.Session.open({ onApproval: (question) => { questions.push(question); return true; } });
  session.on('notice', (text) => notices.push(text));
  const calls = [];
  const called = golden('answer.called');
  await session.tool(called.name, (input) => { calls.push(input); return golden('ask.return').output; });
  const ends = {};
  for (const name of ['echo', 'second', 'third']) {
    const child = session.spawn(name, ['hello']);
    ends[name] = { ...(await ending(child)), child };
  }
  const [first, second, third] = ['answer.ended', 'answer.ended.2', 'answer.ended.3'].map(golden);
  const wanted = (end) => (end.signal === null || end.limit !== null ? [end.exit, null] : [null, 'SIG']);
  for (const [name, end] of Object.entries({ echo: first, second, third })) {
    const { code, signal, child } = ends[name];
    assert.deepEqual([code, signal && 'SIG'], wanted(end), name);
    assert.deepEqual([child.limit, child.hint], [end.limit, end.hint ?? null], name);
  }
  assert.deepEqual(notices.slice(0, 3), Array(3).fill(golden('answer.said').text));
  const refused = golden('answer.refused');
  const { error } = await ending(session.spawn('refused'));
  assert.deepEqual([error.exit, error.remedy], [refused.exit, refused.remedy]);
  const unknown = await ending(session.spawn('unknown'));
  assert.ok(unknown.error instanceof keyward.VersionMismatch, 'a kind that is not known is not ignored');
  assert.deepEqual(await session.jobs(), golden('answer.jobs').jobs);
  assert.deepEqual(await session.call(golden('ask.call').name, golden('ask.call').input), golden('answer.returned').output);
  const question = golden('answer.question');
  assert.deepEqual([questions[0].id, questions[0].rule, questions[0].reason, questions[0].digest], [question.question, question.rule, question.reason, question.digest]);
  assert.deepEqual(calls, [called.input]);
  await session.close();
  const asked = fs.readFileSync(path.join(played, 'asked'), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  for (const message of asked) assert.equal(checker.check(schema.$defs.ask, message), undefined, JSON.stringify(message));
  const sent = (kind) => asked.find((message) => message.do === kind);
  for (const kind of ['hello', 'own', 'jobs', 'watch', 'decide', 'call', 'return']) {
    // What has its default may be left out.
    const { output, error: failed, ...rest } = golden(`ask.${kind}`);
    const expected = Object.fromEntries(Object.entries({ ...rest, output, error: failed }).filter(([, value]) => value !== undefined && value !== null));
    assert.deepEqual(kind === 'return' ? { ...sent(kind), call: expected.call } : sent(kind), expected, kind);
  }
  const { cwd, from, ...exec } = sent('exec');
  const defaults = Object.fromEntries(Object.entries(golden('ask.exec')).filter(([name, value]) => !(name in exec) && (value === null || value === false || value?.length === 0)));
  assert.deepEqual({ ...defaults, ...exec }, { ...golden('ask.exec') });
  assert.deepEqual([cwd, from], ['.', process.cwd()]);
});
