'use strict';
// `exec` and `execFile` that give promises.

const { promisify } = require('node:util');
const keyward = require('./index.cjs');

module.exports = { exec: promisify(keyward.exec), execFile: promisify(keyward.execFile) };
