// Runs tests that need neither an executable nor a process on a Python that was compiled to WebAssembly, and imports every module there.
//
//   node wasm.mjs DIRECTORY TEST...     DIRECTORY holds node_modules/pyodide
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [tools, ...tests] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.join(tools, 'node_modules/pyodide/pyodide.mjs')));
const python = await loadPyodide({ stdout: console.log, stderr: console.log });
python.FS.mkdirTree('/repository');
python.FS.mount(python.FS.filesystems.NODEFS, { root: fileURLToPath(new URL('../../..', import.meta.url)) }, '/repository');
const passed = python.runPython(`
import glob, importlib, os, sys, unittest

sys.dont_write_bytecode = True
sys.path[:0] = ["/repository/sdk/python/src", "/repository/sdk/python/tests"]
print("Python", sys.version.split()[0], sys.platform)
for path in sorted(glob.glob("/repository/sdk/python/src/keyward/*.py")):
    importlib.import_module("keyward." + os.path.basename(path)[:-3])
suite = unittest.defaultTestLoader.loadTestsFromNames(${JSON.stringify(tests)})
unittest.TextTestRunner(stream=sys.stdout).run(suite).wasSuccessful()
`);
process.exit(passed ? 0 : 1);
