'use strict';
// The generated registry: names and values that are credentials, loaders, operational names, tools. It is read when it is needed first.

const fs = require('node:fs');
const path = require('node:path');

/** The name of this platform in the registry. An unknown system is treated as Linux. */
function platformHere() {
  if (process.platform === 'darwin') return 'macos';
  return process.platform === 'win32' ? 'windows' : 'linux';
}

/**
 * Names of variables, of which some hold one `*` for at least one character.
 * @template T
 */
class Names {
  /** @type {Map<string, T>} */
  #exact = new Map();
  /** @type {[string, string, T][]} */
  #starred = [];

  /** @param {Iterable<[string, T]>} rows */
  constructor(rows) {
    for (const [name, row] of rows) {
      const star = name.indexOf('*');
      if (star < 0) this.#exact.set(name, row);
      else this.#starred.push([name.slice(0, star), name.slice(star + 1), row]);
    }
  }

  /** @param {string} name */
  exact(name) {
    return this.#exact.get(name);
  }

  /** @param {string} name @returns {T | undefined} */
  starred(name) {
    return this.#starred.find(([head, tail]) => name.length > head.length + tail.length && name.startsWith(head) && name.endsWith(tail))?.[2];
  }

  /** @param {string} name */
  find(name) {
    return this.exact(name) ?? this.starred(name);
  }
}

/** What a pattern begins with that fits only where a word begins. */
const BOUNDARY = '(?<![A-Za-z0-9])';

/**
 * One pattern for all. Those that begin a word are looked at there only, and by their first character.
 * @param {string[]} patterns
 */
function union(patterns) {
  /** @type {Map<string, string[]>} */
  const first = new Map();
  const rest = [];
  for (const pattern of patterns) {
    const behind = pattern.startsWith(BOUNDARY) ? pattern.slice(BOUNDARY.length) : '';
    const sign = behind[0] ?? '';
    if (/^[A-Za-z0-9]$/u.test(sign)) first.set(sign, [...(first.get(sign) ?? []), behind.slice(1)]);
    else rest.push(`(?:${pattern})`);
  }
  const words = [...first].map(([sign, tails]) => `${sign}(?:${tails.join('|')})`).join('|');
  return [`${BOUNDARY}(?:${words})`, ...rest].join('|');
}

class Registry {
  /** @type {[string, string][]} */
  #values;
  /** @type {RegExp | undefined} */
  #anyValue;

  /** @param {any} tables */
  constructor(tables) {
    if (tables.v !== 1) throw new Error('the registry of this package has another version');
    const names = (/** @type {string[]} */ list) => new Names(list.map((name) => [name, name]));
    /** @type {number} */
    this.longestEntry = tables.longest_entry;
    /** @type {Names<[string, string]>} */
    this.known = new Names(tables.known.map((/** @type {[string, string, string]} */ [name, kind, provider]) => [name, [kind, provider]]));
    this.loader = names(tables.loader);
    this.loaderExcept = names(tables.loader_except);
    this.operational = names(tables.operational);
    /** @type {Record<string, { locale: string | null, operational: string[] }>} */
    this.platforms = tables.platforms;
    /** @type {string[]} */
    this.substrings = tables.substrings;
    this.words = new Set(tables.words);
    this.proxies = new Set(tables.proxies);
    /** @type {Record<string, string>} */
    this.withoutNetwork = tables.without_network;
    this.mayInherit = new Set(tables.classes_that_may_inherit);
    /** @type {Record<string, any>} */
    this.tools = tables.tools;
    this.#values = tables.values;
  }

  #any() {
    this.#anyValue ??= new RegExp(union(this.#values.map(([, pattern]) => pattern)), 'g');
    this.#anyValue.lastIndex = 0;
    return this.#anyValue;
  }

  /** The text without what looks like a credential, as far as its characters go. @param {string} text @param {string} instead */
  withoutCredentials(text, instead) {
    const raw = Buffer.from(text, 'utf8').toString('latin1');
    const pattern = this.#any();
    const parts = [];
    let at = 0;
    for (let found = pattern.exec(raw); found; found = pattern.exec(raw)) {
      let end = found.index + found[0].length;
      while (end < raw.length && /** @type {string} */ (raw[end]) > ' ' && !`"'\`\\,;)}]`.includes(/** @type {string} */ (raw[end]))) end += 1;
      parts.push(raw.slice(at, found.index), instead);
      at = end;
      pattern.lastIndex = Math.max(end, found.index + 1);
    }
    return Buffer.from(parts.join('') + raw.slice(at), 'latin1').toString('utf8');
  }

  /** The label of a credential in a value, each byte of which is one character. @param {string} value @returns {string | undefined} */
  valueShape(value) {
    if (value.length < 4 || !this.#any().test(value)) return undefined;
    return this.#values.find(([, pattern]) => new RegExp(pattern).test(value))?.[0];
  }

  /** The part of a name, in upper case, that makes it look like a credential. @param {string} name @returns {string | undefined} */
  nameShape(name) {
    return this.substrings.find((part) => name.includes(part)) ?? name.split('_').find((word) => this.words.has(word));
  }
}

/** @type {Registry | undefined} */
let loaded;

/** The registry that comes with the package; in a checkout, the one beside it. */
function registry() {
  if (loaded) return loaded;
  const places = [path.join(__dirname, '../registry.json'), path.join(__dirname, '../../registry.json')];
  const file = places.find((place) => fs.existsSync(place));
  if (!file) throw new Error('the package has no registry.json: install it again');
  loaded = new Registry(JSON.parse(fs.readFileSync(file, 'utf8')));
  return loaded;
}

module.exports = { Registry, platformHere, registry };
