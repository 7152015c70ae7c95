'use strict';
// A session: an object that is handed on, never something that a thread or a task has around it.

const childProcess = require('node:child_process');
const { EventEmitter } = require('node:events');
const { promisify } = require('node:util');
const { Bridge } = require('./bridge.cjs');
const { Child, launched, limit, refusal, variables, withVariables } = require('./child.cjs');
const { Denied, KeywardError, NotInstalled, SessionLost, VersionMismatch, ofRefusal, ofSystem } = require('./errors.cjs');
const { executable } = require('./executable.cjs');
const { flags, named } = require('./flags.cjs');
const { exec, execFile, fork } = require('./collect.cjs');
const { synchronous } = require('./sync.cjs');
const { Tools } = require('./tools.cjs');
const { normalized, own, signalName, signalNumber, text, wrongType } = require('./validate.cjs');

/** A pid of Linux is at most this: what is above it names no process, so that `process.kill` of it reaches none. */
const ABOVE_EVERY_PID = 2 ** 22;
/** Connections for commands that wait for their start at the same time. */
const MOST_STARTING = 24;
/** How long `onApproval` may take, if it is not told otherwise. */
const APPROVAL_TIMEOUT = 10 * 60_000;

/** @typedef {import('../protocol.js').Ask} Ask */
/** @typedef {Ask extends infer A ? A extends Ask ? Omit<A, 'v'> : never : never} Unversioned */
/**
 * Something that the session answers when it has decided about it. A connection has one of them at a time: answers name no request.
 * @typedef {{ message: Ask, streams?: (number | null)[], answer(message: any, lane: Lane): void, fail(error: Error): void }} Task
 * @typedef {{ child: Child, wanted: import('./child.cjs').Wanted, isHeld: boolean, isSent: boolean, drop(): void, pending?: number }} Start
 * @typedef {{ number: number, task: Task | undefined, jobs: Map<number, Start> }} Lane
 */

let lastPid = ABOVE_EVERY_PID;

class Session {
  #events = new EventEmitter();
  /** @type {Bridge} */
  #bridge;
  #program;
  /** @type {Error | undefined} */
  #lost;
  #isClosing = false;
  /** @type {Lane[]} */
  #lanes = [];
  /** @type {Task[]} */
  #queue = [];
  /** Requests that are answered at once, and in order. @type {{ resolve: (answer: any) => void, reject: (error: Error) => void }[]} */
  #requests = [];
  #control = -1;
  /** @type {Tools | undefined} */
  #tools;
  #isShell;
  #isOwn;
  #asks;

  /**
   * @param {string} program @param {string} name @param {any} options @param {boolean} isOwn
   * @private
   */
  constructor(program, name, options, isOwn) {
    // A session cannot be sent to another thread. The text of this function is what the error shows.
    Object.defineProperty(this, 'handedOn', { enumerable: true, value: () => 'a Session stays in the thread that opened it: use `Session.attach(name)` in the worker' });
    /** @readonly @type {string} */
    this.name = name;
    this.#program = program;
    this.#isShell = options.shell === true;
    this.#isOwn = isOwn;
    this.#asks = options.onApproval ? { ask: options.onApproval, timeout: options.approvalTimeout ?? APPROVAL_TIMEOUT } : undefined;
    this.#bridge = new Bridge(program, name, isOwn, (error) => this.#lose(error));
    this.#control = this.#bridge.open({
      message: (message) => this.#answered(message),
      closed: () => this.#lose(new SessionLost()),
    });
  }

  /**
   * Starts a session. It ends with this object, and at the latest with this process.
   * @param {any} [options]
   * @returns {Promise<Session>}
   */
  static async open(options = {}) {
    options = checked(options);
    const program = executable();
    // If this process dies before it owns the session, that ends by itself.
    const words = ['session', 'start', '--json', '--owned-within=30s'];
    if (options.name !== undefined) words.push(`--name=${options.name}`);
    if (options.shell) words.push('--shell');
    if (options.cwd !== undefined) words.push(`--cwd=${options.cwd}`);
    const { environment, set } = variables(options.env, options);
    for (const [name, value] of set) words.push(`--env=${name}=${value}`);
    const { stdout, stderr, error } = await finished(program, [...words, ...flags(options)], environment);
    if (error) throw notStarted(error, stderr);
    const { session: name } = JSON.parse(stdout);
    const session = new Session(program, name, options, true);
    try {
      await session.#begin();
    } catch (failed) {
      // No session is left behind that no object ends.
      await finished(program, ['session', 'stop', name], environment);
      throw failed;
    }
    const notice = stderr.trim();
    // Once the caller has had the time to listen.
    if (notice) setImmediate(() => session.#notice(notice)).unref();
    return session;
  }

  /**
   * Connects to a session that another process, or another thread, has started. It goes on when this object ends.
   * @param {string} name @param {any} [options]
   * @returns {Promise<Session>}
   */
  static async attach(name, options = {}) {
    text(name, 'name');
    options = checked(options);
    if (options.shell !== undefined || named(options).length > 0) throw new KeywardError('the cage of a session is decided when it starts', { code: 'usage', exit: 120, remedy: 'leave out its flags, or open another session' });
    const session = new Session(executable(), name, options, false);
    await session.#begin();
    const { shell } = await session.#request({ do: 'jobs' });
    session.#isShell = shell;
    return session;
  }

  async #begin() {
    await this.#bridge.ready();
    const { protocol } = await this.#request({ do: 'hello' });
    if (protocol !== 1) {
      this.#bridge.end();
      throw new VersionMismatch(`the session speaks version ${protocol} of the protocol, and this package version 1`);
    }
    // Also if the bridge itself is killed.
    if (this.#isOwn) await this.#request({ do: 'own' });
    if (this.#asks) await this.#watch();
  }

  /**
   * `notice`: lines about what was found in the project; without a listener they are warnings of the process. `lost`: the session has ended
   * by itself.
   * @param {'notice' | 'lost'} event @param {(value: any) => void} listener
   */
  on(event, listener) {
    this.#events.on(event, listener);
    return this;
  }

  /** @param {'notice' | 'lost'} event @param {(value: any) => void} listener */
  once(event, listener) {
    this.#events.once(event, listener);
    return this;
  }

  /** @param {'notice' | 'lost'} event @param {(value: any) => void} listener */
  off(event, listener) {
    this.#events.off(event, listener);
    return this;
  }

  /** Whether the session has ended, or this object has. */
  get closed() {
    return this.#isClosing || this.#lost !== undefined;
  }

  /** @param {Error} error */
  #lose(error) {
    if (this.#lost) return;
    this.#lost = error;
    for (const { reject } of this.#requests.splice(0)) reject(error);
    for (const task of this.#queue.splice(0)) task.fail(error);
    for (const lane of this.#lanes.splice(0)) this.#laneClosed(lane);
    this.#bridge?.end();
    if (!this.#isClosing) this.#events.emit('lost', error);
  }

  /** @param {string} words */
  #notice(words) {
    if (!this.#events.emit('notice', words)) process.emitWarning(words, { type: 'KeywardNotice' });
  }

  // --- requests ---------------------------------------------------------------------------------------------------------------------

  /** @param {Unversioned} ask @returns {Promise<any>} */
  #request(ask) {
    return new Promise((resolve, reject) => {
      if (this.#lost) return reject(this.#lost);
      this.#bridge.send(this.#control, /** @type {Ask} */ ({ v: 1, ...ask }));
      this.#bridge.hold();
      const settled = (/** @type {(value: any) => void} */ settle) => (/** @type {any} */ value) => {
        this.#bridge.release();
        settle(value);
      };
      this.#requests.push({ resolve: settled(resolve), reject: settled(reject) });
    });
  }

  /** @param {any} message */
  #answered(message) {
    if (message.is === 'said') return this.#notice(message.text);
    const request = this.#requests.shift();
    if (message.is === 'refused') request?.reject(ofRefusal(message));
    else request?.resolve(message);
  }

  // --- questions --------------------------------------------------------------------------------------------------------------------

  async #watch() {
    /** @type {Map<number, AbortController>} */
    const pending = new Map();
    /** @type {(() => void) | undefined} */
    let watching;
    const channel = this.#bridge.open({
      message: (message, document) => {
        if (message.is === 'question') {
          const controller = new AbortController();
          pending.set(message.question, controller);
          this.#ask(message, document, controller.signal).then((decision) => {
            if (!pending.delete(message.question) || this.#lost) return;
            this.#bridge.send(channel, { v: 1, do: 'decide', question: message.question, ...decision });
          });
        } else if (message.is === 'settled') {
          pending.get(message.question)?.abort();
          pending.delete(message.question);
        } else if (message.is === 'said') this.#notice(message.text);
        else watching?.();
      },
      closed: () => {
        for (const controller of pending.values()) controller.abort();
        pending.clear();
        watching?.();
      },
    });
    this.#bridge.send(channel, { v: 1, do: 'watch' });
    this.#bridge.hold();
    await new Promise((resolve) => {
      watching = () => resolve(undefined);
    });
    this.#bridge.release();
    if (this.#lost) throw this.#lost;
  }

  /**
   * What `onApproval` says. An answer that is not a clear yes is a no: also if it throws, or takes too long.
   * @param {any} question @param {any} document @param {AbortSignal} signal
   * @returns {Promise<{ allow: boolean, reach?: 'once' | 'session' | 'project' }>}
   */
  async #ask(question, document, signal) {
    const { ask, timeout } = /** @type {{ ask: (asked: any) => any, timeout: number }} */ (this.#asks);
    /** @type {NodeJS.Timeout | undefined} */
    let timer;
    this.#bridge.hold();
    try {
      const asked = {
        id: question.question,
        digest: question.digest,
        rule: question.rule,
        class: question.class,
        reason: question.reason,
        argv: document?.argv ?? question.argv,
        fromInside: question.from_inside,
        document: document ?? null,
        signal,
      };
      const said = await Promise.race([
        /** @type {Promise<any>} */ ((async () => ask(asked))()),
        new Promise((resolve) => {
          timer = setTimeout(resolve, timeout, false);
          signal.addEventListener('abort', () => resolve(false), { once: true });
        }),
      ]);
      if (typeof said === 'boolean') return { allow: said };
      const { allow, reach = 'once' } = said ?? {};
      if (typeof allow !== 'boolean' || !['once', 'session', 'project'].includes(reach)) throw new Error('it gave neither a boolean nor { allow, reach }');
      return { allow, reach };
    } catch (error) {
      this.#notice(`keyward: onApproval failed, so the answer is no: ${error instanceof Error ? error.message : String(error)}`);
      return { allow: false };
    } finally {
      clearTimeout(timer);
      this.#bridge.release();
    }
  }

  // --- commands ---------------------------------------------------------------------------------------------------------------------

  /** @param {string} file @param {any} [args] @param {any} [options] @returns {Child} */
  spawn(file, args, options) {
    const wanted = normalized(file, args, options);
    this.#refuse(wanted);
    if (this.closed) return failing(wanted, this.#lost ?? new SessionLost('the session was closed'));
    // Descriptors of this process, a terminal among them, travel with `keyward exec`.
    if (wanted.stdio.some((stream) => stream.kind === 'given')) return launched(this.#program, this.#words(wanted), this.#inShell(wanted));
    return this.#start(wanted);
  }

  /** What belongs to the whole session. @param {import('./child.cjs').Wanted} wanted */
  #refuse(wanted) {
    const flag = named(wanted.options)[0] ?? (wanted.options.onApproval ? 'onApproval' : undefined);
    const usage = (/** @type {string} */ fact, /** @type {string} */ remedy) => new KeywardError(fact, { code: 'usage', exit: 120, remedy });
    if (flag) throw usage(`${flag} is decided when a session starts`, 'give it to `Session.open`, or call `spawn` of keyward for a cage of its own');
    if (wanted.options.detached) throw usage('a command of a session ends with it', 'use `session.background()`');
    if (this.#isLine(wanted) && wanted.env) throw usage('a line of the shell takes no env', 'set variables in the line: `export NAME=value`');
    const { tools } = wanted.options;
    if (tools != null && !(Array.isArray(tools) && tools.every((name) => typeof name === 'string'))) throw wrongType('options.tools', 'a list of names', tools);
    if (tools?.length && wanted.stdio.some((stream) => stream.kind === 'given')) throw usage('a command with descriptors of this process cannot name functions', "leave `tools` out, or use `stdio: 'pipe'`");
  }

  /** The words before those of the command. @param {import('./child.cjs').Wanted} wanted */
  #words(wanted) {
    const words = ['exec'];
    if (wanted.options.fresh) words.push('--fresh');
    if (!this.#isShell || wanted.cwd !== undefined) words.push(`--cwd=${wanted.cwd ?? '.'}`);
    return [...words, this.name];
  }

  /** Whether this is a line for the shell that the session keeps. @param {import('./child.cjs').Wanted} wanted */
  #isLine(wanted) {
    return this.#isShell && wanted.line !== undefined;
  }

  /** For `keyward exec`, where each command of a shell that remembers is a line: words are quoted into one. @param {import('./child.cjs').Wanted} wanted */
  #inShell(wanted) {
    if (!this.#isShell) return wanted;
    const { set, unset } = variables(wanted.env);
    return { ...wanted, env: undefined, argv: [wanted.line ?? withVariables(wanted.argv, set, unset).map(quoted).join(' ')] };
  }

  /** @param {import('./child.cjs').Wanted} wanted @returns {Child} */
  #start(wanted) {
    const child = new Child(wanted);
    const streams = wanted.stdio.map((stream, number) => (stream.kind === 'pipe' ? this.#bridge.stream(number === 0 ? 'in' : 'out') : undefined));
    /** @type {Start} */
    const start = { child, wanted, isHeld: true, isSent: false, drop: () => streams.forEach((stream) => stream && this.#drop(stream)) };
    const send = () => {
      if (child.isOver || start.isSent) return;
      start.isSent = true;
      this.#dispatch({
        message: this.#message(wanted),
        // One that was closed before it was connected leads nowhere.
        streams: streams.map((stream) => (stream?.isReady ? stream.number : null)),
        answer: (message, lane) => this.#begun(start, message, lane),
        fail: (error) => this.#fail(start, error),
      });
    };
    this.#bridge.hold();
    child.pid = ++lastPid;
    child.begin(
      {
        signal: (number) => this.#signal(start, number),
        ref: () => this.#hold(start, true),
        unref: () => this.#hold(start, false),
      },
      streams.map((stream) => stream?.socket ?? null),
    );
    for (const stream of streams.slice(1)) if (stream) first(stream.socket, () => child.started());
    limit(child, wanted.options);
    const waits = streams.filter((stream) => stream && !stream.isReady);
    let missing = waits.length;
    if (missing === 0) send();
    for (const stream of waits) settledOnce(/** @type {any} */ (stream).socket, () => --missing === 0 && send());
    return child;
  }

  /** Closes a stream that no command gets: at once, or when it has announced itself. @param {import('./bridge.cjs').Stream} stream */
  #drop({ number, socket, isReady }) {
    if (isReady) this.#bridge.drop([number]);
    else socket.once('connect', () => {
      this.#bridge.drop([number]);
      socket.destroy();
    });
  }

  /** @param {Start} start @param {boolean} held */
  #hold(start, held) {
    if (start.isHeld === held || start.child.isOver) return;
    start.isHeld = held;
    if (held) this.#bridge.hold();
    else this.#bridge.release();
  }

  /** @param {import('./child.cjs').Wanted} wanted @returns {import('../protocol.js').AskExec} */
  #message(wanted) {
    const isLine = this.#isLine(wanted);
    const cwd = isLine ? wanted.cwd : (wanted.cwd ?? '.');
    const { set, unset } = variables(wanted.env);
    const { fresh, tools } = wanted.options;
    return {
      v: 1,
      do: 'exec',
      argv: isLine ? [wanted.line ?? ''] : withVariables(wanted.argv, set, unset),
      ...(this.#isShell ? { line: isLine } : {}),
      ...(cwd === undefined ? {} : { cwd, from: process.cwd() }),
      ...(fresh ? { fresh: true } : {}),
      ...(tools?.length ? { tools } : {}),
    };
  }

  /** Sends a task on a connection that has none, or later. @param {Task} task */
  #dispatch(task) {
    if (this.#lost) return task.fail(this.#lost);
    const lane = this.#lanes.find((each) => !each.task) ?? (this.#lanes.length < MOST_STARTING ? this.#openLane() : undefined);
    if (!lane) return void this.#queue.push(task);
    try {
      this.#bridge.send(lane.number, task.message, task.streams);
    } catch (error) {
      // The caller has no listener yet.
      return process.nextTick(() => task.fail(/** @type {Error} */ (error)));
    }
    lane.task = task;
  }

  /** @returns {Lane} */
  #openLane() {
    /** @type {Lane} */
    const lane = { number: 0, task: undefined, jobs: new Map() };
    lane.number = this.#bridge.open({ message: (message) => this.#hear(lane, message), closed: () => this.#laneClosed(lane) });
    this.#lanes.push(lane);
    return lane;
  }

  /** @param {Lane} lane @param {any} message */
  #hear(lane, message) {
    if (message.is === 'said') return this.#notice(message.text);
    const found = message.is === 'ended' ? lane.jobs.get(message.job) : undefined;
    if (found) {
      lane.jobs.delete(message.job);
      return this.#ended(found, message);
    }
    const { task } = lane;
    lane.task = undefined;
    task?.answer(message, lane);
    const next = this.#queue.shift();
    if (next) this.#dispatch(next);
  }

  /** The first answer to a command. @param {Start} start @param {any} message @param {Lane} lane */
  #begun(start, message, lane) {
    switch (message.is) {
      case 'started':
        start.child.job = message.job;
        lane.jobs.set(message.job, start);
        start.child.started();
        if (start.pending !== undefined) this.#signal(start, start.pending);
        return;
      // It has ended before it ran.
      case 'ended':
        return this.#ended(start, message);
      case 'refused':
        return this.#fail(start, refusal(message, start.wanted));
      default:
        return this.#fail(start, unexpected(message));
    }
  }

  /** @param {Start} start @param {any} message */
  #ended(start, message) {
    this.#hold(start, false);
    start.child.limit = message.limit;
    start.child.hint = message.hint ?? null;
    if (message.signal === null || message.limit !== null) start.child.ended(message.exit, null);
    else start.child.ended(null, signalName(message.signal));
  }

  /** @param {Start} start @param {Error} error */
  #fail(start, error) {
    this.#hold(start, false);
    const { file, argv } = start.wanted;
    const cause = /** @type {KeywardError} */ (error);
    if (cause.code === 'E2BIG') start.drop();
    start.child.failed(cause.code === 'E2BIG' ? ofSystem('E2BIG', file, argv.slice(1), { fact: cause.message, remedy: cause.remedy }) : error);
  }

  /** @param {Lane} lane */
  #laneClosed(lane) {
    const at = this.#lanes.indexOf(lane);
    if (at >= 0) this.#lanes.splice(at, 1);
    const error = this.#lost ?? new SessionLost();
    const { task } = lane;
    lane.task = undefined;
    task?.fail(error);
    for (const start of lane.jobs.values()) this.#fail(start, error);
    lane.jobs.clear();
  }

  /** Sends a request whose answer takes time. @param {Unversioned} message @returns {Promise<any>} */
  #slow(message) {
    return new Promise((resolve, reject) => {
      if (this.closed) return reject(this.#lost ?? new SessionLost('the session was closed'));
      this.#bridge.hold();
      const settled = (/** @type {(value: any) => void} */ settle) => (/** @type {any} */ value) => {
        this.#bridge.release();
        settle(value);
      };
      this.#dispatch({ message: /** @type {Ask} */ ({ v: 1, ...message }), answer: settled(resolve), fail: settled(reject) });
    });
  }

  /** @param {Start} start @param {number} number @returns {boolean} */
  #signal(start, number) {
    const { job } = start.child;
    if (this.#lost) return false;
    // One that was not sent yet is not started at all.
    if (!start.isSent) {
      this.#hold(start, false);
      start.isSent = true;
      process.nextTick(() => {
        const { child } = start;
        for (const stream of [child.stdout, child.stderr]) stream?.once('end', () => stream.destroy()).push(null);
        child.ended(null, signalName(number));
        start.drop();
      });
      return true;
    }
    // One that has not started yet gets it then.
    if (job === undefined) start.pending = number;
    else this.#request({ do: 'signal', job, signal: number }).catch(() => {});
    return true;
  }

  /** @param {string} command @param {any} [options] @param {any} [callback] @returns {Child} */
  exec(command, options, callback) {
    return exec(this.spawn.bind(this), command, options, callback);
  }

  /** @param {string} file @param {any} [args] @param {any} [options] @param {any} [callback] @returns {Child} */
  execFile(file, args, options, callback) {
    return execFile(this.spawn.bind(this), file, args, options, callback);
  }

  /** @returns {never} */
  fork() {
    return fork();
  }

  /** The calls that give promises, as node:child_process' `promisify` makes them. */
  get promises() {
    const session = this;
    return {
      exec: promisify(bound(session, 'exec')),
      execFile: promisify(bound(session, 'execFile')),
    };
  }

  /** @param {string} file @param {any} [args] @param {any} [options] */
  spawnSync(file, args, options) {
    return this.#synchronous().spawnSync(file, args, options);
  }

  /** @param {string} file @param {any} [args] @param {any} [options] */
  execFileSync(file, args, options) {
    return this.#synchronous().execFileSync(file, args, options);
  }

  /** @param {string} command @param {any} [options] */
  execSync(command, options) {
    return this.#synchronous().execSync(command, options);
  }

  #synchronous() {
    if (this.closed) throw this.#lost ?? new SessionLost('the session was closed');
    if (this.#asks) throw new KeywardError('a synchronous call stops the thread that onApproval would answer on', { code: 'usage', exit: 120, remedy: 'use `spawn`, `exec` or `execFile`' });
    return synchronous((wanted) => {
      this.#refuse(wanted);
      return [this.#program, this.#words(wanted), this.#inShell(wanted)];
    });
  }

  /**
   * Runs a line in the session's shell (`Session.open({ shell: true })`), which keeps its directory, variables and functions.
   * @param {string} line @param {any} [options]
   * @returns {Promise<{ stdout: string, stderr: string }>}
   */
  async shell(line, options) {
    if (!this.#isShell) throw new KeywardError('this session keeps no shell', { code: 'usage', exit: 120, remedy: 'open it with `Session.open({ shell: true })`' });
    return this.promises.exec(line, options);
  }

  /**
   * Starts a command that goes on by itself as long as the session lives; its output is kept.
   * @param {string} file @param {string[]} [args] @param {any} [options]
   */
  async background(file, args = [], options = {}) {
    const wanted = normalized(file, args, options);
    this.#refuse(wanted);
    const answer = await this.#slow({ ...this.#message(wanted), background: true });
    if (answer.is === 'refused') throw refusal(answer, wanted);
    if (answer.is !== 'started') throw unexpected(answer);
    const job = /** @type {number} */ (answer.job);
    const target = `${this.name}/${job}`;
    return {
      job,
      name: target,
      kill: async () => void (await this.#request({ do: 'kill', job })),
      /** @param {number | NodeJS.Signals} signal */
      signal: async (signal) => void (await this.#request({ do: 'signal', job, signal: signalNumber(signal) })),
      logs: async () => {
        const { stdout, stderr, error } = await finished(this.#program, ['logs', target], process.env);
        if (error) throw new KeywardError(stderr.trim() || error.message, { code: 'session-failed', remedy: '`keyward ps` lists the jobs' });
        return stdout;
      },
    };
  }

  /** The jobs of the session, as `keyward ps --json` shows them. @returns {Promise<any[]>} */
  async jobs() {
    return (await this.#request({ do: 'jobs' })).jobs;
  }

  // --- functions of this program ----------------------------------------------------------------------------------------------------

  /**
   * Lets commands that name it in `tools` call a function of this program: `keyward call NAME JSON`.
   * @param {string} name @param {(input: any, context: { signal: AbortSignal, fromInside: boolean }) => any} fn @param {any} [options]
   * @returns {Promise<void>}
   */
  async tool(name, fn, options = {}) {
    if (this.closed) throw this.#lost ?? new SessionLost('the session was closed');
    this.#tools ??= new Tools(this.#bridge, (words) => this.#notice(words));
    await this.#tools.add(name, fn, options);
  }

  /**
   * Calls a function that some client of the session offers.
   * @param {string} name @param {unknown} [input]
   * @returns {Promise<any>}
   */
  async call(name, input = null) {
    text(name, 'name');
    const answer = await this.#slow({ do: 'call', name, input });
    if (answer.is === 'refused') throw ofRefusal(answer);
    if (answer.is !== 'returned') throw unexpected(answer);
    return answer.output;
  }

  // --- the end ----------------------------------------------------------------------------------------------------------------------

  /** Ends the session with everything in it, or, if it was attached to, this connection. */
  async close() {
    this.#isClosing = true;
    await this.#bridge.close();
  }

  async [Symbol.asyncDispose ?? Symbol.for('nodejs.asyncDispose')]() {
    await this.close();
  }
}

/** @param {Session} session @param {'exec' | 'execFile'} name */
function bound(session, name) {
  const call = /** @type {any} */ (session[name]).bind(session);
  const { promised } = require('./collect.cjs');
  Object.defineProperty(call, promisify.custom, { value: promised(call) });
  return call;
}

/**
 * Calls before the first bytes of a stream are passed on: they may come faster than the session's word that the command has started.
 * @param {import('node:net').Socket} socket @param {() => void} call
 */
function first(socket, call) {
  socket.push = function (/** @type {any} */ chunk, /** @type {any} */ encoding) {
    delete (/** @type {any} */ (socket).push);
    if (chunk) call();
    return socket.push(chunk, encoding);
  };
}

/** Calls once, when a socket is connected or closed. @param {import('node:net').Socket} socket @param {() => void} call */
function settledOnce(socket, call) {
  const once = () => {
    socket.off('connect', once).off('close', once);
    call();
  };
  socket.on('connect', once).on('close', once);
}

/** @param {string} word */
function quoted(word) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** @param {import('./child.cjs').Wanted} wanted @param {Error} error */
function failing(wanted, error) {
  const child = new Child(wanted);
  process.nextTick(() => child.failed(error));
  return child;
}

/** An answer that the protocol does not have. @param {any} message */
function unexpected(message) {
  return new VersionMismatch(`the session gave an answer that this package does not know: ${String(message.is)}`);
}

/** @param {any} options */
function checked(options) {
  if (options === null || typeof options !== 'object') throw wrongType('options', 'of type object', options);
  options = own(options);
  const { onApproval, approvalTimeout = APPROVAL_TIMEOUT } = options;
  if (onApproval != null && typeof onApproval !== 'function') throw wrongType('options.onApproval', 'of type function', onApproval);
  if (!(Number.isFinite(approvalTimeout) && approvalTimeout > 0)) throw wrongType('options.approvalTimeout', 'a positive number', approvalTimeout);
  return options;
}

/**
 * @param {string} program @param {string[]} words @param {NodeJS.ProcessEnv} env
 * @returns {Promise<{ stdout: string, stderr: string, error: any }>}
 */
function finished(program, words, env) {
  return new Promise((resolve) => {
    const child = childProcess.execFile(program, words, { env, maxBuffer: 64 << 20 }, (error, stdout, stderr) => resolve({ error, stdout, stderr }));
    child.stdin?.end();
  });
}

/** @param {any} error @param {string} stderr */
function notStarted(error, stderr) {
  if (error.code === 'ENOENT') return new NotInstalled(undefined, error);
  try {
    return ofRefusal(JSON.parse(stderr.trim().split('\n').pop() ?? ''));
  } catch {
    const [fact, ...rest] = stderr.trim().replace(/^(?:keyward|error): /u, '').split('\n');
    const isUsage = error.code === 120;
    const remedy = rest.join('\n') || (isUsage ? '`keyward help run` lists the flags, and what each takes' : '`keyward doctor` shows what this host can do');
    return new KeywardError(fact || error.message, { code: isUsage ? 'usage' : 'session-failed', exit: error.code, remedy });
  }
}

module.exports = { Session, Denied };
