import { exec as plainExec, execFile as plainExecFile } from './index.js';

export const exec: typeof plainExec.__promisify__;
export const execFile: typeof plainExecFile.__promisify__;
