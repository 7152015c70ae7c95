'use strict';
// A HOME per profile, for children that the caller spawns itself. In a cage the launcher shows logins by mounts; here they are links, so that
// a child can do with a login what the user can.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { KeywardError } = require('./errors.cjs');
const { platformHere, registry } = require('./registry.cjs');
const { wrongType } = require('./validate.cjs');

const KEYCHAINS = 'Library/Keychains';
/** @type {Record<string, string>} */
const BASES = { XDG_CONFIG_HOME: '.config/', XDG_DATA_HOME: '.local/share/', XDG_STATE_HOME: '.local/state/', XDG_CACHE_HOME: '.cache/' };

/** @typedef {{ path: string, moved_by: string | null, runtime: boolean }} Exposure */

/** @param {string} fact @param {string} remedy */
function refused(fact, remedy, code = 'usage') {
  return new KeywardError(fact, { code, exit: 120, remedy });
}

/**
 * Makes the HOME of a profile if it is not there, and gives its path. What that HOME has itself is never replaced.
 * @param {string} name @param {any} [options]
 * @returns {string}
 */
function profileHome(name, options = {}) {
  if (typeof name !== 'string' || !/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/u.test(name)) throw refused('invalid profile name', 'use letters, digits, `.`, `_` and `-`, at most 64 of them');
  const { tools = [], share = [], trust = 'executor', environ: variables = process.env, platform: here = platformHere() } = options;
  const real = options.home ?? realHome(variables, here);
  const wanted = wantedOf(tools, share, trust, here);
  const state = options.state ?? stateOf(variables, real, here);
  const at = makePrivate(state, ['plain-homes', name, trust]);
  if (here === 'windows') return at;
  /** @type {Map<string, string>} */
  const asked = new Map();
  for (const [below, row] of wanted) if (!row.runtime) asked.set(below, outside(row, real, variables));
  if (here === 'macos' && registry().mayInherit.has(trust)) asked.set(KEYCHAINS, path.join(real, KEYCHAINS));
  for (const row of allExposures(here)) if (!asked.has(row.path) && !row.runtime) dropLink(at, row.path, outside(row, real, variables));
  for (const [below, target] of asked) if (fs.existsSync(target)) link(at, below, target);
  return at;
}

/** @param {string[]} tools @param {string[]} share @param {string} trust @param {string} here @returns {Map<string, Exposure>} */
function wantedOf(tools, share, trust, here) {
  for (const list of [tools, share]) if (!Array.isArray(list)) throw wrongType('options.tools', 'a list of tools', list);
  if (!['internal', 'executor', 'tool', 'unknown'].includes(trust)) throw refused('trust is `internal`, `executor`, `tool` or `unknown`', 'leave it out for `executor`');
  const names = [...tools, ...share];
  if (names.length > 0 && !registry().mayInherit.has(trust)) throw refused(`a login is not shown to a child of class \`${trust}\``, 'leave the tools out, or use the class `executor`', 'refused');
  /** @type {Map<string, Exposure>} */
  const found = new Map();
  for (const tool of names) {
    const row = Object.hasOwn(registry().tools, tool) ? registry().tools[tool][here] : undefined;
    if (!row) throw refused(`the tool ${JSON.stringify(tool)} is not known on ${here}`, '`keyward home tools` lists the tools');
    for (const exposure of [...row.login, ...(share.includes(tool) ? row.share : [])]) found.set(exposure.path, exposure);
  }
  return found;
}

/** @param {string} here @returns {Exposure[]} */
function allExposures(here) {
  return Object.values(registry().tools).flatMap((tool) => (tool[here] ? [...tool[here].login, ...tool[here].share] : []));
}

/** @param {NodeJS.ProcessEnv} variables @param {string} here */
function realHome(variables, here) {
  if (here === 'windows') return variables['USERPROFILE'] || os.homedir();
  return variables['HOME']?.startsWith('/') ? variables['HOME'] : os.userInfo().homedir;
}

/** @param {NodeJS.ProcessEnv} variables @param {string} real @param {string} here */
function stateOf(variables, real, here) {
  if (here === 'windows') return path.join(variables['LOCALAPPDATA'] || path.join(real, 'AppData', 'Local'), 'keyward');
  if (variables['XDG_STATE_HOME']?.startsWith('/')) return path.join(variables['XDG_STATE_HOME'], 'keyward');
  return path.join(real, here === 'macos' ? 'Library/Application Support/keyward' : '.local/state/keyward');
}

/** Where something of a tool is: variables may have moved it. @param {Exposure} exposure @param {string} real @param {NodeJS.ProcessEnv} variables */
function outside({ path: below, moved_by: variable }, real, variables) {
  const moved = variable ? variables[variable] : undefined;
  if (variable && moved?.startsWith('/')) return path.join(moved, below.slice((BASES[variable] ?? '').length));
  return path.join(real, below);
}

/** @param {string} state @param {string[]} parts */
function makePrivate(state, parts) {
  fs.mkdirSync(state, { recursive: true, mode: 0o700 });
  let at = state;
  for (const part of parts) {
    at = path.join(at, part);
    try {
      fs.mkdirSync(at, 0o700);
    } catch (error) {
      if (/** @type {any} */ (error).code !== 'EEXIST') throw error;
    }
    const found = fs.lstatSync(at);
    if (!found.isDirectory()) throw refused(`${at} is not a directory`, 'remove it, and call again', 'file-unusable');
    if (!process.getuid) continue;
    if (found.uid !== process.getuid()) throw refused(`${at} belongs to another user`, 'remove it, and call again', 'file-unusable');
    if (found.mode & 0o077) fs.chmodSync(at, 0o700);
  }
  return at;
}

/**
 * Does something in the directory above a path below the HOME. A child may have put links there: none is followed. Node has no `openat`;
 * on Linux the descriptors of a directory serve for it, elsewhere each part is looked at.
 * @param {string} home @param {string} below @param {boolean} make @param {(file: string) => void} act
 */
function above(home, below, make, act) {
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = fs.constants;
  const parts = below.split('/');
  const name = /** @type {string} */ (parts.pop());
  /** @type {number[]} */
  const open = [];
  try {
    let at = home;
    for (const part of ['', ...parts]) {
      const file = part === '' ? at : path.join(at, part);
      if (make && part !== '') {
        try {
          fs.mkdirSync(file, 0o700);
        } catch {
          // It is there; what it is shows below.
        }
      }
      const descriptor = fs.openSync(file, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
      open.push(descriptor);
      at = process.platform === 'linux' ? `/proc/self/fd/${descriptor}` : file;
    }
    act(path.join(at, name));
  } catch (error) {
    // What a child has put in the way stays.
    if (!['ENOENT', 'ENOTDIR', 'ELOOP', 'EEXIST', 'EACCES'].includes(/** @type {any} */ (error).code)) throw error;
  } finally {
    for (const descriptor of open.reverse()) fs.closeSync(descriptor);
  }
}

/** @param {string} file */
function leads(file) {
  try {
    return fs.readlinkSync(file);
  } catch {
    return undefined;
  }
}

/** @param {string} home @param {string} below @param {string} target */
function link(home, below, target) {
  above(home, below, true, (file) => {
    const found = leads(file);
    if (found !== undefined && found !== target && !fs.existsSync(file)) fs.unlinkSync(file);
    fs.symlinkSync(target, file);
  });
}

/** Takes a login away that an earlier call has shown. Only a link to the real one goes. @param {string} home @param {string} below @param {string} target */
function dropLink(home, below, target) {
  above(home, below, false, (file) => {
    if (leads(file) === target) fs.unlinkSync(file);
  });
}

module.exports = { profileHome };
