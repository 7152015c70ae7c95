'use strict';
// JSON Schema, as far as descriptions of a function's input use it. A keyword that is not known here is refused when the schema is read:
// it could be a restriction, and ignoring it would let through what it forbids.

const { isDeepStrictEqual } = require('node:util');
const { KeywardError } = require('./errors.cjs');

/** Keywords that restrict nothing. */
const NOTES = new Set(['$schema', '$id', '$defs', 'definitions', '$comment', 'title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', 'format']);

/** @type {Record<string, (value: any) => boolean>} */
const TYPES = {
  null: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  number: (value) => typeof value === 'number',
  integer: (value) => Number.isInteger(value),
  string: (value) => typeof value === 'string',
  array: Array.isArray,
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
};

const isObject = /** @type {(value: any) => boolean} */ (TYPES['object']);
const length = (/** @type {string} */ text) => [...text].length;
const unique = (/** @type {any[]} */ all) => all.every((one, at) => all.findIndex((other) => isDeepStrictEqual(one, other)) === at);
const list = (/** @type {any} */ value) => (Array.isArray(value) ? value : [value]);

/**
 * What each keyword says of a value: `undefined`, or what is wrong. `at` is where the value stands.
 * @type {Record<string, (schema: any, value: any, at: string, all: Checker) => string | undefined>}
 */
const KEYWORDS = {
  type: ({ type }, value, at) => (list(type).some((name) => TYPES[name]?.(value)) ? undefined : `${at} is not of type ${list(type).join(' or ')}`),
  const: (schema, value, at) => (isDeepStrictEqual(schema.const, value) ? undefined : `${at} is not ${JSON.stringify(schema.const)}`),
  enum: (schema, value, at) => (schema.enum.some((/** @type {any} */ one) => isDeepStrictEqual(one, value)) ? undefined : `${at} is not one of ${JSON.stringify(schema.enum)}`),
  minimum: (schema, value, at) => (typeof value === 'number' && value < schema.minimum ? `${at} is below ${schema.minimum}` : undefined),
  maximum: (schema, value, at) => (typeof value === 'number' && value > schema.maximum ? `${at} is above ${schema.maximum}` : undefined),
  exclusiveMinimum: (schema, value, at) => (typeof value === 'number' && value <= schema.exclusiveMinimum ? `${at} is not above ${schema.exclusiveMinimum}` : undefined),
  exclusiveMaximum: (schema, value, at) => (typeof value === 'number' && value >= schema.exclusiveMaximum ? `${at} is not below ${schema.exclusiveMaximum}` : undefined),
  minLength: (schema, value, at) => (typeof value === 'string' && length(value) < schema.minLength ? `${at} is shorter than ${schema.minLength}` : undefined),
  maxLength: (schema, value, at) => (typeof value === 'string' && length(value) > schema.maxLength ? `${at} is longer than ${schema.maxLength}` : undefined),
  pattern: (schema, value, at) => (typeof value === 'string' && !new RegExp(schema.pattern, 'u').test(value) ? `${at} does not match ${schema.pattern}` : undefined),
  minItems: (schema, value, at) => (Array.isArray(value) && value.length < schema.minItems ? `${at} has fewer than ${schema.minItems} items` : undefined),
  maxItems: (schema, value, at) => (Array.isArray(value) && value.length > schema.maxItems ? `${at} has more than ${schema.maxItems} items` : undefined),
  uniqueItems: (schema, value, at) => (schema.uniqueItems && Array.isArray(value) && !unique(value) ? `${at} has an item twice` : undefined),
  prefixItems: (schema, value, at, all) => (Array.isArray(value) ? all.first(schema.prefixItems, (each, n) => (n < value.length ? all.check(each, value[n], `${at}[${n}]`) : undefined)) : undefined),
  items: (schema, value, at, all) => {
    const from = schema.prefixItems?.length ?? 0;
    return Array.isArray(value) ? all.first(value.slice(from), (each, n) => all.check(schema.items, each, `${at}[${n + from}]`)) : undefined;
  },
  required: (schema, value, at) => {
    const missing = isObject(value) ? schema.required.find((/** @type {string} */ name) => !Object.hasOwn(value, name)) : undefined;
    return missing === undefined ? undefined : `${at}.${missing} is missing`;
  },
  properties: (schema, value, at, all) => (isObject(value) ? all.first(Object.keys(schema.properties), (name) => (Object.hasOwn(value, name) ? all.check(schema.properties[name], value[name], `${at}.${name}`) : undefined)) : undefined),
  additionalProperties: (schema, value, at, all) => {
    if (!isObject(value)) return undefined;
    const others = Object.keys(value).filter((name) => !Object.hasOwn(schema.properties ?? {}, name));
    return all.first(others, (name) => (schema.additionalProperties === false ? `${at}.${name} is unknown` : all.check(schema.additionalProperties, value[name], `${at}.${name}`)));
  },
  minProperties: (schema, value, at) => (isObject(value) && Object.keys(value).length < schema.minProperties ? `${at} has too few fields` : undefined),
  maxProperties: (schema, value, at) => (isObject(value) && Object.keys(value).length > schema.maxProperties ? `${at} has too many fields` : undefined),
  allOf: (schema, value, at, all) => all.first(schema.allOf, (each) => all.check(each, value, at)),
  anyOf: (schema, value, at, all) => (schema.anyOf.some((/** @type {any} */ each) => all.check(each, value, at) === undefined) ? undefined : `${at} fits none of the alternatives`),
  oneOf: (schema, value, at, all) => (schema.oneOf.filter((/** @type {any} */ each) => all.check(each, value, at) === undefined).length === 1 ? undefined : `${at} does not fit exactly one of the alternatives`),
  not: (schema, value, at, all) => (all.check(schema.not, value, at) === undefined ? `${at} is what it must not be` : undefined),
  $ref: (schema, value, at, all) => all.check(all.at(schema.$ref), value, at),
};

class Checker {
  #root;
  #depth = 0;

  /** @param {any} root */
  constructor(root) {
    this.#root = root;
    this.#read(root, '#');
  }

  /** Refuses keywords that are not known. @param {any} schema @param {string} at */
  #read(schema, at) {
    if (typeof schema === 'boolean') return;
    const wrong = (/** @type {string} */ fact) => new KeywardError(fact, { code: 'usage', exit: 120, remedy: 'see docs/node.md for the keywords that are known' });
    if (!isObject(schema)) throw wrong(`the schema at ${at} is not an object`);
    for (const [name, value] of Object.entries(schema)) {
      if (name === '$defs' || name === 'definitions' || name === 'properties') {
        for (const [key, each] of Object.entries(value)) this.#read(each, `${at}/${name}/${key}`);
      } else if (['allOf', 'anyOf', 'oneOf', 'prefixItems'].includes(name)) {
        for (const [key, each] of value.entries()) this.#read(each, `${at}/${name}/${key}`);
      } else if (['items', 'additionalProperties', 'not'].includes(name)) this.#read(value, `${at}/${name}`);
      else if (name === '$ref') this.at(value);
      else if (name === 'pattern') new RegExp(value, 'u');
      else if (!NOTES.has(name) && !Object.hasOwn(KEYWORDS, name)) throw wrong(`the schema at ${at} has the keyword ${name}, which is not known here`);
    }
  }

  /** @param {string} reference @returns {any} */
  at(reference) {
    let found = this.#root;
    for (const part of reference.replace(/^#\/?/u, '').split('/').filter(Boolean)) found = found?.[part.replaceAll('~1', '/').replaceAll('~0', '~')];
    if (!reference.startsWith('#') || found === undefined) throw new KeywardError(`the schema has no ${reference}`, { code: 'usage', exit: 120, remedy: 'a reference leads to a part of the same schema' });
    return found;
  }

  /**
   * @template T
   * @param {T[]} all @param {(each: T, n: number) => string | undefined} check
   */
  first(all, check) {
    for (const [n, each] of all.entries()) {
      const wrong = check(each, n);
      if (wrong !== undefined) return wrong;
    }
    return undefined;
  }

  /** What is wrong with a value, or `undefined`. @param {any} schema @param {any} value @param {string} at @returns {string | undefined} */
  check(schema, value, at = 'the input') {
    if (typeof schema === 'boolean') return schema ? undefined : `${at} is not allowed`;
    if (this.#depth > 100) return `${at} is nested too deeply`;
    this.#depth += 1;
    try {
      return this.first(Object.keys(schema), (name) => KEYWORDS[name]?.(schema, value, at, this));
    } finally {
      this.#depth -= 1;
    }
  }

  /** @param {any} value */
  wrong(value) {
    return this.check(this.#root, value);
  }
}

module.exports = { Checker };
