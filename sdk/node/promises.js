// The ESM entry of `keyward/promises`.
import promises from './lib/promises.cjs';

export const { exec, execFile } = promises;
export default promises;
