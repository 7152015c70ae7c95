'use strict';
// The connection to a session. Node can neither connect to a SOCK_SEQPACKET socket nor send descriptors, so that a process of Keyward's
// (`keyward session bridge`) does both: messages are lines on its standard streams, and each stream of a command is a connection to its
// socket, whose descriptor it hands to the session. docs/protocol.md describes it.

const childProcess = require('node:child_process');
const fs = require('node:fs');
const net = require('node:net');
const path = require('node:path');
const { PROTOCOL } = require('./executable.cjs');
const { KeywardError, NotInstalled, SessionLost, VersionMismatch, ofRefusal } = require('./errors.cjs');

/** The most bytes of a message. */
const LONGEST = 131072;
/** Streams that are connected in advance: inputs, and outputs. */
const SPARE = { in: 2, out: 4 };
/** The longest path that a Unix socket can have. */
const LONGEST_ADDRESS = 100;

/**
 * @typedef {{ message(message: any, document: any): void, closed(): void }} Channel
 * @typedef {{ number: number, socket: import('node:net').Socket, isReady: boolean }} Stream
 */

function ignored() {}

class Bridge {
  #process;
  /** @type {Map<number, Channel>} */
  #channels = new Map();
  #next = 0;
  #rest = '';
  #held = 0;
  /** @type {Error | undefined} */
  #lost;
  /** @type {Record<'in' | 'out', Stream[]>} */
  #spare = { in: [], out: [] };
  #streams = 0;
  #address = '';
  #token = '';
  /** @type {number | undefined} */
  #directory;
  #isRefilling = false;
  /** @type {{ resolve: () => void, reject: (error: Error) => void } | undefined} */
  #waiting;
  /** @type {(error: Error) => void} */
  #onLost;
  /** @type {Promise<void>} */
  #ended;

  /**
   * @param {string} program @param {string} name @param {boolean} stops Whether the session ends with this connection.
   * @param {(error: Error) => void} onLost
   */
  constructor(program, name, stops, onLost) {
    this.#onLost = onLost;
    const words = ['session', 'bridge', ...(stops ? ['--stop'] : []), name];
    this.#process = childProcess.spawn(program, words, { stdio: ['pipe', 'pipe', 'ignore'], detached: true, windowsHide: true });
    const { stdin, stdout } = this.#process;
    stdin.on('error', () => {});
    stdout.setEncoding('utf8');
    stdout.on('data', (text) => this.#hear(text));
    stdout.on('error', () => {});
    // Its end follows, and says why: a call that waits for an answer has to see it.
    stdout.once('close', () => this.#process.ref());
    this.#ended = new Promise((resolve) => this.#process.once('close', () => resolve()));
    this.#process.once('error', (error) => this.#lose(new NotInstalled(`cannot start ${program}`, error)));
    this.#process.once('exit', (code) => this.#lose(code === 120 ? new VersionMismatch('the executable does not know `keyward session bridge`') : new SessionLost()));
    for (const handle of [this.#process, /** @type {any} */ (stdin), /** @type {any} */ (stdout)]) handle.unref();
  }

  /** @returns {Promise<void>} */
  ready() {
    return new Promise((resolve, reject) => {
      if (this.#lost) return reject(this.#lost);
      this.hold();
      const settled = (/** @type {(value?: any) => void} */ settle) => (/** @type {any} */ value = undefined) => {
        this.#waiting = undefined;
        this.release();
        settle(value);
      };
      this.#waiting = { resolve: settled(resolve), reject: settled(reject) };
    });
  }

  /** While something is held, the process of this program does not end by itself. */
  hold() {
    if (this.#held++ === 0) /** @type {any} */ (this.#process.stdout).ref();
  }

  release() {
    if (--this.#held === 0) /** @type {any} */ (this.#process.stdout).unref();
  }

  /** @param {Error} error */
  #lose(error) {
    if (this.#lost) return;
    this.#lost = error;
    this.#waiting?.reject(error);
    for (const all of Object.values(this.#spare)) for (const { socket } of all.splice(0)) socket.destroy();
    if (this.#directory !== undefined) fs.closeSync(this.#directory);
    this.#onLost(error);
    for (const channel of this.#channels.values()) channel.closed();
    this.#channels.clear();
  }

  /** @param {string} text */
  #hear(text) {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      let told;
      try {
        told = JSON.parse(line);
      } catch {
        this.#lose(new VersionMismatch('the executable does not speak the protocol of this package'));
        return this.end();
      }
      if (told.channel === undefined) this.#greeted(told);
      else if (told.closed) {
        const channel = this.#channels.get(told.channel);
        this.#channels.delete(told.channel);
        channel?.closed();
      } else this.#channels.get(told.channel)?.message(told.message, told.document);
    }
  }

  /** The first line: where streams connect to, or why there is no connection. @param {any} told */
  #greeted(told) {
    if (told.is === 'refused') return this.#lose(ofRefusal(told));
    if (told.v !== PROTOCOL || told.is !== 'bridge') {
      this.#lose(new VersionMismatch(`the executable speaks version ${told.v} of the protocol, and this package version ${PROTOCOL}`));
      return this.end();
    }
    this.#address = told.socket;
    if (Buffer.byteLength(this.#address) > LONGEST_ADDRESS) {
      this.#directory = fs.openSync(path.dirname(this.#address), 'r');
      this.#address = `/proc/self/fd/${this.#directory}/${path.basename(this.#address)}`;
    }
    this.#token = told.token;
    this.#refill();
    this.#waiting?.resolve();
  }

  /** @param {Channel} channel @returns {number} */
  open(channel) {
    this.#channels.set(++this.#next, channel);
    return this.#next;
  }

  /**
   * @param {number} channel @param {import('../protocol.js').Ask} message
   * @param {(number | null)[]} [streams]
   */
  send(channel, message, streams) {
    if (this.#lost) throw this.#lost;
    const text = JSON.stringify(message);
    if (Buffer.byteLength(text) > LONGEST) {
      throw new KeywardError('the message is too long for the session socket', { code: 'E2BIG', exit: 125, remedy: 'put it into a file in the project' });
    }
    const beside = streams ? `,"streams":${JSON.stringify(streams)}` : '';
    /** @type {any} */ (this.#process.stdin).write(`{"channel":${channel}${beside},"message":${text}}\n`);
  }

  /** Closes streams that were announced and are for no command. @param {number[]} streams */
  drop(streams) {
    if (!this.#lost && streams.length > 0) /** @type {any} */ (this.#process.stdin).write(`{"drop":${JSON.stringify(streams)}}\n`);
  }

  /** A stream for a command: one that is connected, or will be. @param {'in' | 'out'} kind @returns {Stream} */
  stream(kind) {
    const stream = this.#spare[kind].shift() ?? this.#connect(kind);
    stream.socket.ref();
    if (stream.isReady) stream.socket.off('error', ignored);
    else stream.socket.once('connect', () => stream.socket.off('error', ignored));
    this.#refill();
    return stream;
  }

  /** Connects streams in advance, when there is nothing else to do. */
  #refill() {
    if (this.#isRefilling) return;
    this.#isRefilling = true;
    setImmediate(() => {
      this.#isRefilling = false;
      for (const kind of /** @type {const} */ (['in', 'out'])) {
        while (!this.#lost && this.#spare[kind].length < SPARE[kind]) {
          const stream = this.#connect(kind);
          stream.socket.unref();
          this.#spare[kind].push(stream);
        }
      }
    }).unref();
  }

  /** @param {'in' | 'out'} kind @returns {Stream} */
  #connect(kind) {
    // An input is never read from, as that of node:child_process: what a command would write there is not for us.
    const isInput = kind === 'in';
    const socket = new net.Socket(/** @type {any} */ ({ allowHalfOpen: isInput, readable: !isInput, writable: true }));
    socket.connect({ path: this.#address });
    const stream = { number: ++this.#streams, socket, isReady: false };
    // What goes wrong before the command has it is told by the bridge.
    socket.on('error', ignored);
    socket.write(`${this.#token} ${stream.number}\n`);
    socket.once('connect', () => {
      stream.isReady = true;
    });
    socket.once('close', () => {
      const at = this.#spare[kind].indexOf(stream);
      if (at >= 0) this.#spare[kind].splice(at, 1);
    });
    return stream;
  }

  /** Ends the connection. */
  end() {
    this.#process.stdin?.end();
  }

  /** Ends the connection, and waits until the process behind it is gone. */
  async close() {
    this.#process.ref();
    this.hold();
    this.end();
    await this.#ended;
  }
}

module.exports = { Bridge, LONGEST };
