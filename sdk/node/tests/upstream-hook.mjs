// Puts this package in the place of node:child_process, for Node's own tests: KEYWARD_UPSTREAM says whether in a session.
import Module, { createRequire, syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const lib = path.join(path.dirname(fileURLToPath(import.meta.url)), '../lib');
const builtin = require('node:child_process');
const plain = { ...builtin };
const load = Module._load;
// The package itself has the plain one: it starts the executable with it.
Module._load = function (request, parent, ...rest) {
  const isOurs = parent?.filename?.startsWith(lib) && request === 'node:child_process';
  return isOurs ? plain : load.call(this, request, parent, ...rest);
};
const keyward = require('../lib/index.cjs');
let from = keyward;
if (process.env.KEYWARD_UPSTREAM === 'session') {
  const session = await keyward.Session.open({ gate: 'yolo', write: [process.env.KEYWARD_UPSTREAM_TREE] });
  session.on('notice', () => {});
  from = Object.fromEntries(['spawn', 'spawnSync', 'execSync', 'execFileSync', 'fork'].map((name) => [name, session[name].bind(session)]));
  const { promisify } = require('node:util');
  const collect = require('../lib/collect.cjs');
  for (const name of ['exec', 'execFile']) {
    from[name] = session[name].bind(session);
    Object.defineProperty(from[name], promisify.custom, { value: collect.promised(from[name]) });
  }
}
for (const name of ['spawn', 'exec', 'execFile', 'spawnSync', 'execSync', 'execFileSync', 'fork']) builtin[name] = from[name];
syncBuiltinESMExports();
