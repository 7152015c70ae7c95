'use strict';
// Where the executable is: in the package for this platform, else on PATH. It is looked for once.

const childProcess = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { NotInstalled, VersionMismatch } = require('./errors.cjs');

/** The version of the protocol that this package speaks. */
const PROTOCOL = 1;

/** @type {string | undefined} */
let found;

function ofPackage() {
  try {
    return require.resolve(`@keyward/${process.platform}-${process.arch}/bin/keyward`);
  } catch {
    return undefined;
  }
}

function ofPath() {
  for (const directory of (process.env['PATH'] ?? '').split(path.delimiter)) {
    // A relative entry is the directory that a command may write to.
    if (!path.isAbsolute(directory)) continue;
    const file = path.join(directory, 'keyward');
    try {
      fs.accessSync(file, fs.constants.X_OK);
      if (fs.statSync(file).isFile()) return file;
    } catch {
      // The next one.
    }
  }
  return undefined;
}

/** Refuses an executable of another version. It is asked once. @param {string} program */
function compare(program) {
  const asked = childProcess.spawnSync(program, ['version', '--json'], { encoding: 'utf8', timeout: 10_000, windowsHide: true });
  if (asked.error) throw new NotInstalled(`cannot start ${program}: ${asked.error.message}`, asked.error);
  let protocol;
  try {
    ({ protocol } = JSON.parse(asked.stdout));
  } catch {
    throw new VersionMismatch(`${program} does not say which version of the protocol it speaks, and this package speaks version ${PROTOCOL}`);
  }
  if (protocol !== PROTOCOL) throw new VersionMismatch(`${program} speaks version ${protocol} of the protocol, and this package version ${PROTOCOL}`);
}

/** @returns {string} */
function executable() {
  if (found !== undefined) return found;
  if (process.platform !== 'linux') throw new NotInstalled(`keyward does not run commands on ${process.platform} yet`);
  const program = ofPackage() ?? ofPath();
  if (program === undefined) throw new NotInstalled();
  compare(program);
  found = program;
  return found;
}

/** Looks again at the next call: for tests, and after an installation. */
function forget() {
  found = undefined;
}

module.exports = { PROTOCOL, executable, forget };
