// The ESM entry: the same objects that `require('keyward')` gives, so that `instanceof` holds across both.
import keyward from './lib/index.cjs';

export const { ChildProcess, spawn, exec, execFile, fork, spawnSync, execFileSync, execSync, Session, environ, explainEnviron, profileHome, open, KeywardError, Denied, NotInstalled, VersionMismatch, SessionLost } = keyward;
export default keyward;
