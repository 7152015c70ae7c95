'use strict';
// The environment for a child that the caller spawns itself: built up from nothing, never filtered down. Pure: no executable is needed, and
// nothing is read but the given environment and the registry. The launcher decides the same for the same inputs.

const { Denied, KeywardError } = require('./errors.cjs');
const { platformHere, registry } = require('./registry.cjs');
const { wrongType } = require('./validate.cjs');

/**
 * @typedef {{ name: string, value: string, rule: string }} Passed
 * @typedef {{ name: string, rule: string, detail: string | null }} Dropped
 * @typedef {{ passed: Passed[], dropped: Dropped[], missing: string[] }} Decision
 * @typedef {[string, string | null]} Rule
 * @typedef {{ platform: string, inheritCredentials: string[], pass: string[], notSecret: string[], dangerousLoaderEnv: string[], set: Record<string, string>, trust: string, net: string }} Inputs
 */

/** @param {any} [options] @returns {Record<string, string>} */
function environ(options = {}) {
  const made = Object.fromEntries(explainEnviron(options).passed.map(({ name, value }) => [name, value]));
  const { home, platform = platformHere() } = options;
  if (home !== undefined) moveHome(made, home, platform);
  return made;
}

/** @param {any} [options] @returns {Decision} */
function explainEnviron(options = {}) {
  if (options === null || typeof options !== 'object') throw wrongType('options', 'of type object', options);
  const names = (/** @type {string} */ name) => {
    const list = options[name] ?? [];
    if (!Array.isArray(list) || list.some((each) => typeof each !== 'string')) throw wrongType(`options.${name}`, 'a list of names', list);
    return list;
  };
  const { base = process.env, set = {}, trust = 'executor', net = 'open', platform = platformHere() } = options;
  const entries = Object.entries(base).filter(([, value]) => value !== undefined).map(([name, value]) => `${bytes(name)}=${bytes(`${value}`)}`);
  return decide(entries, {
    platform,
    inheritCredentials: names('inheritCredentials'),
    pass: names('pass'),
    notSecret: names('notSecret'),
    dangerousLoaderEnv: names('dangerousLoaderEnv'),
    set,
    trust,
    net,
  });
}

/**
 * Decides about raw `NAME=value` entries, each byte of which is one character, in the order in which they stand.
 * @param {string[]} entries @param {Inputs} inputs
 * @returns {Decision}
 */
function decide(entries, inputs) {
  const wrong = (/** @type {string} */ fact) => new KeywardError(fact, { code: 'usage', exit: 120, remedy: 'see docs/node.md' });
  if (!Object.hasOwn(registry().platforms, inputs.platform)) throw wrong(`the platform is one of ${Object.keys(registry().platforms).join(', ')}`);
  if (!['open', 'none'].includes(inputs.net)) throw wrong('net is `open` or `none`');
  if (!['internal', 'executor', 'tool', 'unknown'].includes(inputs.trust)) throw wrong('trust is `internal`, `executor`, `tool` or `unknown`');
  return new Deciding(inputs).decide(entries);
}

/** The rule by which a variable is taken for a credential or for a way to someone's authority. @param {string} name @param {string} value @returns {Rule | undefined} */
function looksLikeCredential(name, value) {
  const tables = registry();
  const upper = ascii(name);
  const known = tables.known.find(upper);
  if (known) return [known[0] === 'credential' ? 'registry' : 'authority', known[1]];
  if (isProxy(name) && value.includes('@')) return ['value-shape', 'proxy with a login'];
  const shape = tables.nameShape(upper);
  if (shape) return ['name-shape', shape];
  const label = tables.valueShape(value) ?? keyAsName(name);
  return label === undefined ? undefined : ['value-shape', label];
}

class Deciding {
  /** @type {Map<string, Passed>} */
  #passed = new Map();
  /** @type {Dropped[]} */
  #dropped = [];
  #inputs;
  #tables = registry();

  /** @param {Inputs} inputs */
  constructor(inputs) {
    this.#inputs = inputs;
  }

  /** @param {string[]} entries @returns {Decision} */
  decide(entries) {
    /** @type {Map<string, [string, string][]>} */
    const groups = new Map();
    for (const entry of entries) this.#sortIn(entry, groups);
    const replaced = new Set(Object.keys(this.#inputs.set).map((name) => this.#key(bytes(name))));
    for (const [name, value] of Object.entries(this.#inputs.set)) this.#set(bytes(name), bytes(value));
    for (const key of [...groups.keys()].sort()) if (!replaced.has(key)) this.#judgeGroup(/** @type {[string, string][]} */ (groups.get(key)));
    const missing = this.#missing(groups, replaced);
    this.#ensureUtf8();
    if (this.#inputs.net === 'none') {
      for (const [name, value] of Object.entries(this.#tables.withoutNetwork)) if (!this.#passed.has(this.#key(name))) this.#give(name, value, 'no-network');
    }
    const order = (/** @type {{ name: string }} */ one, /** @type {{ name: string }} */ other) => (one.name < other.name ? -1 : Number(one.name > other.name));
    const passed = [...this.#passed.values()].sort(order).map((row) => ({ ...row, value: text(row.value) }));
    return { passed, dropped: this.#dropped.sort(order), missing };
  }

  /** @param {string} name */
  #key(name) {
    return this.#inputs.platform === 'windows' ? ascii(name) : name;
  }

  /** @param {string} entry @param {Map<string, [string, string][]>} groups */
  #sortIn(entry, groups) {
    const sign = entry.indexOf('=');
    const [name, value] = sign < 0 ? [entry, ''] : [entry.slice(0, sign), entry.slice(sign + 1)];
    const what = sign < 0 ? 'no `=`' : (malformed(name) ?? (value.includes('\0') ? 'a NUL byte in the value' : undefined));
    if (what) return this.#drop(name, ['malformed', what]);
    const key = this.#key(name);
    groups.set(key, [...(groups.get(key) ?? []), [name, value]]);
  }

  /** @param {string} name @param {Rule} rule */
  #drop(name, [rule, detail]) {
    this.#dropped.push({ name: shown(name), rule, detail });
  }

  /** @param {string} name @param {string} value @param {string} rule */
  #give(name, value, rule) {
    this.#passed.set(this.#key(name), { name, value, rule });
  }

  /** @param {string[]} names @param {string} name */
  #named(names, name) {
    const key = this.#key(name);
    return names.some((other) => this.#key(bytes(other)) === key);
  }

  /** @param {string} name @param {string} value */
  #set(name, value) {
    const what = malformed(name) ?? (value.includes('\0') ? 'a NUL byte in the value' : undefined);
    if (what) return this.#drop(name, ['malformed', what]);
    if (name.length + value.length + 2 > this.#tables.longestEntry) return this.#drop(name, ['too-long', null]);
    const hit = looksLikeCredential(name, value);
    if (!hit || hit[0] === 'authority' || this.#named(this.#inputs.notSecret, name)) return this.#give(name, value, 'set');
    return this.#drop(name, hit);
  }

  /** @param {[string, string][]} group */
  #judgeGroup(group) {
    const [name, value] = /** @type {[string, string]} */ (group[0]);
    const [passes, rule] = this.#judge(name, group.map(([, each]) => each));
    if (!passes) return group.forEach(([other]) => this.#drop(other, rule));
    this.#give(name, value, rule[0]);
    for (const [other] of group.slice(1)) this.#drop(other, ['duplicate', null]);
  }

  /** Decides about one name. More than one value means duplicates, of which every one counts. @param {string} name @param {string[]} values @returns {[boolean, Rule]} */
  #judge(name, values) {
    const inputs = this.#inputs;
    if (values.some((value) => name.length + value.length + 2 > this.#tables.longestEntry)) return [false, ['too-long', null]];
    const inherit = this.#named(inputs.inheritCredentials, name);
    if (inherit && !this.#tables.mayInherit.has(inputs.trust)) return [false, ['class-may-not-inherit', null]];
    const loader = loaderOf(name);
    if (loader !== undefined && !this.#named(inputs.dangerousLoaderEnv, name)) return [false, ['loader', loader]];
    if (inherit) return [true, ['inherited', null]];
    const hit = values.map((value) => looksLikeCredential(name, value)).find(Boolean);
    if (hit && (hit[0] === 'authority' || !this.#named(inputs.notSecret, name))) return [false, hit];
    const rule = this.#rule(name, loader);
    if (rule === undefined) return [false, ['not-listed', null]];
    return [true, [hit ? 'not-secret-cleared' : rule, null]];
  }

  /** The rule that passes a name which is not a credential. @param {string} name @param {string | undefined} loader */
  #rule(name, loader) {
    if (loader !== undefined) return 'loader-allowed';
    if (this.#named(this.#inputs.pass, name)) return 'passed';
    const key = this.#key(name);
    if (this.#tables.operational.find(key) || this.#tables.platforms[this.#inputs.platform]?.operational.includes(key)) return 'operational';
    return isProxy(name) && this.#inputs.net === 'open' ? 'proxy' : undefined;
  }

  /** @param {Map<string, unknown>} groups @param {Set<string>} replaced */
  #missing(groups, replaced) {
    const absent = (/** @type {string} */ name) => !groups.has(this.#key(bytes(name))) && !replaced.has(this.#key(bytes(name)));
    let inherit = this.#inputs.inheritCredentials.filter(absent);
    if (!this.#tables.mayInherit.has(this.#inputs.trust)) {
      for (const name of inherit) this.#drop(bytes(name), ['class-may-not-inherit', null]);
      inherit = [];
    }
    return [...inherit, ...this.#inputs.pass.filter(absent)];
  }

  #ensureUtf8() {
    if (!this.#passed.has('PYTHONUTF8')) this.#give('PYTHONUTF8', '1', 'made-utf8');
    const locale = this.#tables.platforms[this.#inputs.platform]?.locale;
    if (!locale) return;
    for (const name of ['LC_ALL', 'LC_CTYPE', 'LANG']) {
      const row = this.#passed.get(name);
      if (!row?.value) continue;
      if (row.rule === 'set' || namesUtf8(row.value)) return;
      this.#passed.delete(name);
      this.#dropped.push({ name, rule: 'not-utf8', detail: null });
    }
    this.#give('LANG', locale, 'made-utf8');
  }
}

/** Each byte as one character: tables and patterns count bytes. @param {string} value */
function bytes(value) {
  // eslint-disable-next-line no-control-regex
  return /^[\0-\x7f]*$/u.test(value) ? value : Buffer.from(value, 'utf8').toString('latin1');
}

/** @param {string} oneByOne */
function text(oneByOne) {
  return Buffer.from(oneByOne, 'latin1').toString('utf8');
}

/** ASCII letters in upper case, and nothing else changed. @param {string} name */
function ascii(name) {
  return name.replace(/[a-z]+/gu, (part) => part.toUpperCase());
}

/** @param {string} name */
function malformed(name) {
  if (name === '') return 'an empty name';
  if (/^[0-9]/u.test(name)) return 'a name that begins with a digit';
  return /^[A-Za-z0-9_]+$/u.test(name) ? undefined : 'a name with other characters than letters, digits and `_`';
}

/** @param {string} name */
function loaderOf(name) {
  const tables = registry();
  const upper = ascii(name);
  const exact = tables.loader.exact(upper);
  if (exact !== undefined) return exact;
  const rule = tables.loader.starred(upper);
  return rule === undefined || tables.loaderExcept.find(upper) || tables.known.find(upper) ? undefined : rule;
}

/** @param {string} name */
function isProxy(name) {
  return (name === name.toUpperCase() || name === name.toLowerCase()) && registry().proxies.has(ascii(name));
}

/** The label of a key that stands where a name should be, after a slip of the hand. @param {string} name */
function keyAsName(name) {
  return name.length < 20 || !/[0-9]/u.test(name) ? undefined : registry().valueShape(name);
}

/** @type {Record<string, string>} */
const SIMPLE = { '\t': '\\t', '\r': '\\r', '\n': '\\n', "'": "\\'", '"': '\\"', '\\': '\\\\' };

/** The name as it may be printed. @param {string} name */
function shown(name) {
  const isFormed = malformed(name) === undefined;
  const label = isFormed ? keyAsName(name) : registry().valueShape(name);
  if (label !== undefined) return `(not shown: ${label})`;
  if (isFormed && name.length <= 128) return name;
  if (name === '') return '(empty)';
  let made = '';
  for (let at = 0; at < name.length; at++) {
    const sign = /** @type {string} */ (name[at]);
    const plain = sign >= ' ' && sign <= '~' ? sign : `\\x${sign.charCodeAt(0).toString(16).padStart(2, '0')}`;
    const escaped = SIMPLE[sign] ?? plain;
    if (made.length + escaped.length > 128 - Number(at + 1 < name.length)) return `${made}\u2026`;
    made += escaped;
  }
  return made;
}

/** @param {string} locale */
function namesUtf8(locale) {
  const charset = (locale.split('@')[0] ?? '').split('.').pop() ?? '';
  return ['UTF-8', 'UTF8'].includes(ascii(charset));
}

/** @param {Record<string, string>} made @param {string} home @param {string} platform */
function moveHome(made, home, platform) {
  made['HOME'] = home;
  if (platform !== 'windows') return;
  for (const name of Object.keys(made)) if (['HOMEDRIVE', 'HOMEPATH'].includes(name.toUpperCase())) delete made[name];
  Object.assign(made, { USERPROFILE: home, APPDATA: `${home}\\AppData\\Roaming`, LOCALAPPDATA: `${home}\\AppData\\Local` });
}

const REMOVED = '(removed: looks like a credential)';

/**
 * The text without credentials: the values of this process's own environment, and what looks like one. A notice and not a wall: a function
 * that encodes a secret passes it on.
 * @param {string} said
 */
function redacted(said) {
  let clean = said;
  for (const { name, rule } of explainEnviron().dropped) {
    const value = process.env[name] ?? '';
    if (['registry', 'name-shape', 'value-shape'].includes(rule) && value.length >= 8) clean = clean.replaceAll(value, REMOVED);
  }
  return registry().withoutCredentials(clean, REMOVED);
}

/** A value of JSON without credentials, in its keys as well. @param {any} value @returns {any} */
function clean(value) {
  if (typeof value === 'string') return redacted(value);
  if (Array.isArray(value)) return value.map(clean);
  if (value === null || typeof value !== 'object') return value;
  const gives = (/** @type {string} */ key, /** @type {any} */ one) => typeof one === 'string' && one !== '' && registry().nameShape(ascii(key)) !== undefined;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [redacted(key), gives(key, one) ? REMOVED : clean(one)]));
}

/**
 * Refuses a variable that looks like a credential: a command is not given one by its value.
 * @param {string} name @param {string} value
 */
function refuseCredential(name, value) {
  const hit = looksLikeCredential(bytes(name), bytes(value));
  if (!hit || hit[0] === 'authority') return;
  throw new Denied(`${name} looks like a credential (${hit[1]}), and is not set for a command`, {
    code: 'refused',
    exit: 121,
    rule: hit[0],
    remedy: "name it with `inheritCredentials` and `trust: 'executor'`, or deliver it with `secrets`",
  });
}

module.exports = { clean, decide, environ, explainEnviron, redacted, refuseCredential };
