'use strict';
// Functions of this program that commands in the cage of a session may call.

const { clean, redacted } = require('./environ.cjs');
const { Checker } = require('./schema.cjs');
const { KeywardError, ofRefusal } = require('./errors.cjs');
const { LONGEST } = require('./bridge.cjs');
const { wrongType } = require('./validate.cjs');

/** The most bytes of an input, if the function does not say otherwise. */
const LONGEST_INPUT = 64 << 10;

/** @typedef {{ fn: Function, schema: Checker | undefined, maxInput: number }} Tool */

class Tools {
  #bridge;
  #channel;
  #notice;
  /** @type {Map<string, Tool>} */
  #all = new Map();
  /** @type {{ resolve: () => void, reject: (error: Error) => void }[]} */
  #offers = [];
  /** @type {Set<AbortController>} */
  #running = new Set();

  /** @param {import('./bridge.cjs').Bridge} bridge @param {(words: string) => void} notice */
  constructor(bridge, notice) {
    this.#bridge = bridge;
    this.#notice = notice;
    // A connection of its own: a result that nobody waits for any more is refused, and that is no answer to something else.
    this.#channel = bridge.open({ message: (message) => this.#hear(message), closed: () => this.#closed() });
  }

  #closed() {
    for (const controller of this.#running) controller.abort();
    for (const { reject } of this.#offers.splice(0)) reject(new KeywardError('the session has ended', { code: 'session-ended', remedy: 'open another with `Session.open()`' }));
  }

  /** @param {string} name @param {Function} fn @param {any} options @returns {Promise<void>} */
  add(name, fn, options) {
    if (typeof name !== 'string') throw wrongType('name', 'of type string', name);
    if (typeof fn !== 'function') throw wrongType('fn', 'of type function', fn);
    const { schema, judged, maxInput = LONGEST_INPUT } = options;
    const tool = { fn, schema: schema === undefined ? undefined : new Checker(schema), maxInput };
    return new Promise((resolve, reject) => {
      this.#bridge.hold();
      this.#offers.push({
        resolve: () => {
          this.#bridge.release();
          this.#all.set(name, tool);
          resolve();
        },
        reject: (error) => {
          this.#bridge.release();
          reject(error);
        },
      });
      this.#bridge.send(this.#channel, { v: 1, do: 'offer', names: [name], named: true, ...(judged === undefined ? {} : { judged: { [name]: judged } }) });
    });
  }

  /** @param {any} message */
  #hear(message) {
    if (message.is === 'called') this.#called(message);
    else if (message.is === 'done') this.#offers.shift()?.resolve();
    else if (message.is === 'refused' && message.fact !== 'this call is not pending') this.#offers.shift()?.reject(ofRefusal(message));
    else if (message.is === 'said') this.#notice(message.text);
  }

  /** @param {{ call: number, name: string, input: any, from_inside: boolean }} message */
  async #called({ call, name, input, from_inside: fromInside }) {
    const controller = new AbortController();
    this.#running.add(controller);
    this.#bridge.hold();
    /** @type {{ output: any } | { error: string }} */
    let result;
    try {
      result = { output: await this.#run(name, input, { signal: controller.signal, fromInside }) };
    } catch (error) {
      result = { error: redacted(error instanceof Error ? error.message : String(error)).slice(0, 4096) };
    }
    this.#running.delete(controller);
    try {
      this.#bridge.send(this.#channel, { v: 1, do: 'return', call, ...result });
    } catch (error) {
      const isLong = error instanceof KeywardError && error.code === 'E2BIG';
      // Without a session there is no caller.
      if (isLong) this.#bridge.send(this.#channel, { v: 1, do: 'return', call, error: `the result is longer than ${LONGEST} bytes` });
    } finally {
      this.#bridge.release();
    }
  }

  /** @param {string} name @param {any} input @param {any} context */
  async #run(name, input, context) {
    const tool = this.#all.get(name);
    if (!tool) throw new Error(`there is no function ${name}`);
    if (Buffer.byteLength(JSON.stringify(input)) > tool.maxInput) throw new Error(`the input is longer than ${tool.maxInput} bytes`);
    const wrong = tool.schema?.wrong(input);
    if (wrong !== undefined) throw new Error(wrong);
    const output = await tool.fn(input, context);
    // As JSON has it, and without what looks like a credential.
    return output === undefined ? null : clean(JSON.parse(JSON.stringify(output) ?? 'null'));
  }
}

module.exports = { Tools };
