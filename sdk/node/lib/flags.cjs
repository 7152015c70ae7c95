'use strict';
// The options of this package that are flags of `keyward run`, one to one.

const { wrongType } = require('./validate.cjs');

/** @type {Record<string, 'text' | 'list' | 'switch' | 'pairs' | 'number' | 'time'>} */
const FLAGS = {
  profile: 'text',
  trust: 'text',
  floor: 'text',
  allow: 'list',
  gpu: 'switch',
  shims: 'switch',
  pass: 'list',
  inheritCredentials: 'list',
  secrets: 'pairs',
  redact: 'text',
  read: 'list',
  write: 'list',
  hide: 'list',
  show: 'list',
  protect: 'text',
  home: 'text',
  tools: 'list',
  net: 'text',
  allowNet: 'list',
  reach: 'list',
  publish: 'list',
  gate: 'text',
  wall: 'time',
  memory: 'text',
  pids: 'number',
};
/** @type {Record<string, string>} */
const NAMES = { inheritCredentials: 'inherit-credentials', secrets: 'secret', tools: 'tool', allowNet: 'allow-net', wall: 'timeout' };

/**
 * @param {any} options
 * @returns {string[]}
 */
function flags(options) {
  /** @type {string[]} */
  const words = [];
  for (const [name, kind] of Object.entries(FLAGS)) {
    const value = options[name];
    if (value == null) continue;
    const flag = `--${NAMES[name] ?? name}`;
    const wrong = (/** @type {string} */ expected) => wrongType(`options.${name}`, expected, value);
    if (kind === 'switch') {
      if (typeof value !== 'boolean') throw wrong('of type boolean');
      if (value) words.push(flag);
    } else if (kind === 'list') {
      const all = typeof value === 'string' ? [value] : value;
      if (!Array.isArray(all) || all.some((each) => typeof each !== 'string')) throw wrong('a list of strings');
      for (const each of all) words.push(`${flag}=${each}`);
    } else if (kind === 'pairs') {
      if (typeof value !== 'object' || Object.values(value).some((each) => typeof each !== 'string')) throw wrong('an object of strings');
      for (const [key, how] of Object.entries(value)) words.push(`${flag}=${key}=${how}`);
    } else if (kind === 'time') {
      if (!(typeof value === 'number' && value > 0 && Number.isFinite(value))) throw wrong('a positive number');
      words.push(`${flag}=${Math.ceil(value)}ms`);
    } else {
      const fits = kind === 'number' ? Number.isInteger(value) : typeof value === 'string' || typeof value === 'number';
      if (!fits) throw wrong(kind === 'number' ? 'an integer' : 'of type string');
      words.push(`${flag}=${value}`);
    }
  }
  return words;
}

/** The options of a session that a command in it cannot have: its cage is decided once. @param {any} options */
function named(options) {
  // For a command of a session, `tools` names functions of the program around it.
  return Object.keys(FLAGS).filter((name) => name !== 'tools' && options[name] != null);
}

module.exports = { flags, named, FLAGS, NAMES };
