// Writes protocol.d.ts: the messages of the session socket as types, from the published schema.
//
//   node tools/types.mjs [SCHEMA]     prints it; tests compare it with the file
import fs from 'node:fs';

const file = process.argv[2] ?? new URL('../../../crates/protocol/schema/session.json', import.meta.url);
const root = JSON.parse(fs.readFileSync(file, 'utf8'));

const named = (name) => name.split('-').map((part) => part[0].toUpperCase() + part.slice(1)).join('');
const union = (all) => [...new Set(all)].join(' | ');
const SIMPLE = { string: 'string', integer: 'number', number: 'number', boolean: 'boolean', null: 'null' };

function note(schema, indent) {
  return schema.description ? `${indent}/** ${schema.description} */\n` : '';
}

function type(schema, indent) {
  if (schema === true || Object.keys(schema).every((key) => key === 'description')) return 'unknown';
  if (schema.$ref) return named(schema.$ref.split('/').pop());
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.map((each) => JSON.stringify(each)));
  if (schema.anyOf || schema.oneOf) return union((schema.anyOf ?? schema.oneOf).map((each) => type(each, indent)));
  if (Array.isArray(schema.type)) return union(schema.type.map((each) => type({ ...schema, type: each }, indent)));
  if (schema.type === 'array' && schema.prefixItems) return `[${schema.prefixItems.map((each) => type(each, indent)).join(', ')}]`;
  if (schema.type === 'array') {
    const item = type(schema.items ?? true, indent);
    if (schema.minItems && schema.minItems === schema.maxItems) return `[${Array(schema.minItems).fill(item).join(', ')}]`;
    return item.includes(' ') ? `(${item})[]` : `${item}[]`;
  }
  if (schema.type === 'object' && !schema.properties) return `Record<string, ${type(schema.additionalProperties ?? true, indent)}>`;
  if (schema.type === 'object') return object(schema, indent);
  if (SIMPLE[schema.type]) return SIMPLE[schema.type];
  throw new Error(`a schema that has no type: ${JSON.stringify(schema)}`);
}

function object(schema, indent) {
  const deeper = `${indent}  `;
  const fields = Object.entries(schema.properties).map(([name, field]) => {
    const isNeeded = schema.required?.includes(name);
    return `${note(field, deeper)}${deeper}${JSON.stringify(name).replace(/^"([a-z_]+)"$/u, '$1')}${isNeeded ? '' : '?'}: ${type(field, deeper)};\n`;
  });
  return `{\n${fields.join('')}${indent}}`;
}

let text = '// Generated from crates/protocol/schema/session.json by tools/types.mjs. A test compares them.\n';
for (const [name, schema] of Object.entries(root.$defs)) {
  const kinds = schema.oneOf?.filter((each) => each.title);
  if (!kinds?.length) {
    text += `\n${note(schema, '')}export type ${named(name)} = ${type(schema, '')};\n`;
    continue;
  }
  for (const kind of kinds) text += `\n${note(kind, '')}export type ${named(name)}${named(kind.title)} = ${type(kind, '')};\n`;
  text += `\n${note(schema, '')}export type ${named(name)} = ${kinds.map((kind) => named(name) + named(kind.title)).join(' | ')};\n`;
}
process.stdout.write(text);
