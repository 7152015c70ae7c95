'use strict';
// The guarded read, for the file tools of an agent: the content of a file, unless it holds a credential.

const childProcess = require('node:child_process');
const { KeywardError, NotInstalled, ofRefusal } = require('./errors.cjs');
const { executable } = require('./executable.cjs');
const { text } = require('./validate.cjs');

/** The most bytes that are read, if the caller does not say otherwise. */
const MOST = 10 << 20;

/**
 * @param {string} path @param {any} [options]
 * @returns {Promise<Buffer | string>}
 */
async function open(path, options = {}) {
  text(path, 'path');
  const { encoding, max } = typeof options === 'string' ? { encoding: options, max: undefined } : options;
  const most = max ?? MOST;
  const program = executable();
  const words = ['read', '--json', `--max=${most}`, '--', path];
  const [error, stdout, stderr] = await new Promise((resolve) => {
    childProcess.execFile(program, words, { encoding: 'buffer', maxBuffer: most + (1 << 20) }, (...all) => resolve(all));
  });
  if (error?.code === 'ENOENT') throw new NotInstalled(undefined, error);
  const last = stderr.toString().trim().split('\n').pop() ?? '';
  let told;
  try {
    told = JSON.parse(last);
  } catch {
    throw new KeywardError(error?.message ?? 'keyward read gave no answer', { code: 'internal', exit: 125, remedy: 'run `keyward doctor`' });
  }
  if (told.read !== true) throw ofRefusal({ exit: error?.code ?? null, code: 'read-refused', ...told });
  if (told.cut && max === undefined) throw new KeywardError(`${path} is longer than ${most} bytes`, { code: 'file-unusable', exit: 125, remedy: 'read its beginning with `max`' });
  return encoding ? stdout.toString(encoding) : stdout;
}

module.exports = { open };
