import type { OpenAPIHono } from '@hono/zod-openapi';
import { html, raw } from 'hono/html';
import { newRoutes } from './route-app.ts';

type Document = ReturnType<OpenAPIHono['getOpenAPI31Document']>;
type Html = ReturnType<typeof html>;

/** What the page reads of a schema. A reference names one of the document's own components. */
interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | Schema;
  readonly description?: string;
  readonly default?: unknown;
  readonly format?: string;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly maxItems?: number;
}

interface Content {
  readonly description?: string;
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly schema?: Schema;
}

interface Operation {
  readonly tags?: readonly string[];
  readonly security?: readonly unknown[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content>>;
}

interface Route {
  readonly method: string;
  readonly path: string;
  readonly operation: Operation;
}

/** Nothing is fetched, run or sent by the page, and nobody may frame it. */
const SECURITY_POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/**
 * The OpenAPI document as one page for people: its routes with their parameters, bodies and answers.
 * It needs no script and no other file, and says nothing that the document does not.
 */
export function docsRoutes(readDocument: () => Document): OpenAPIHono {
  const app = newRoutes();
  app.get('/docs', (context) => {
    context.header('content-security-policy', SECURITY_POLICY);
    return context.html(page(readDocument()));
  });
  return app;
}

function page({ info, paths = {}, components = {} }: Document): Html {
  const areas = new Map<string, Route[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods) as [string, Operation][]) {
      const area = operation.tags?.[0] ?? 'other';
      areas.set(area, [...(areas.get(area) ?? []), { method, path, operation }]);
    }
  }
  const schemas = Object.entries((components.schemas ?? {}) as Record<string, Schema>).sort(
    ([a], [b]) => (a < b ? -1 : 1),
  );
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${info.title} ${info.version}: routes</title>
        <style>
          ${STYLE}
        </style>
      </head>
      <body>
        <a class="skip" href="#content">Skip to the routes</a>
        <header>
          <h1>${info.title} <small>${info.version}</small></h1>
          <p>
            ${info.description ?? ''} The same as <a href="/openapi.json">an OpenAPI document</a>.
          </p>
        </header>
        <nav aria-label="Routes">
          ${[...areas].map(
            ([area, routes]) =>
              html`<h2>${area}</h2>
                <ul>
                  ${routes.map(
                    ({ method, path }) =>
                      html`<li>
                        <a href="#${anchorOf(method, path)}"
                          ><b>${method.toUpperCase()}</b> ${breakable(path)}</a
                        >
                      </li>`,
                  )}
                </ul>`,
          )}
          <h2><a href="#shapes">shapes</a></h2>
        </nav>
        <main id="content" tabindex="-1">
          ${[...areas].map(
            ([area, routes]) =>
              html`<section aria-labelledby="area-${area}">
                <h2 id="area-${area}">${area}</h2>
                ${routes.map(routePart)}
              </section>`,
          )}
          <section aria-labelledby="shapes">
            <h2 id="shapes">shapes</h2>
            ${schemas.map(
              ([name, schema]) =>
                html`<article aria-labelledby="shape-${name}">
                  <h3 id="shape-${name}">${name}</h3>
                  ${schemaPart(schema, name)}
                </article>`,
            )}
          </section>
        </main>
      </body>
    </html>`;
}

function routePart({ method, path, operation }: Route): Html {
  const anchor = anchorOf(method, path);
  const { parameters = [], requestBody, responses, security } = operation;
  return html`<article aria-labelledby="${anchor}">
    <h3 id="${anchor}"><b>${method.toUpperCase()}</b> <code>${breakable(path)}</code></h3>
    ${security?.length === 0 ? html`<p>Open: no token is asked for.</p>` : ''}
    ${parameters.length === 0 ? '' : parameterTable(parameters)}
    ${
      requestBody === undefined
        ? ''
        : html`<h4>Body</h4>
            ${contentPart(requestBody, 'the body')}`
    }
    <h4>Answers</h4>
    <dl>
      ${Object.entries(responses).map(
        ([status, answer]) =>
          html` <dt>${status === 'default' ? 'otherwise' : status}</dt>
            <dd>${answer.description ?? ''} ${contentPart(answer, `answer ${status}`)}</dd>`,
      )}
    </dl>
  </article>`;
}

function parameterTable(parameters: readonly Parameter[]): Html {
  return html`<table>
    <caption>
      Parameters
    </caption>
    <thead>
      <tr>
        <th scope="col">name</th>
        <th scope="col">in</th>
        <th scope="col">value</th>
      </tr>
    </thead>
    <tbody>
      ${parameters.map(
        ({ name, in: place, required, schema }) =>
          html`<tr>
            <th scope="row">
              <code>${name}</code>${required === true ? '' : html` <i>optional</i>`}
            </th>
            <td>${place}</td>
            <td>${schema === undefined ? '' : valueOf(schema)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

function contentPart({ content = {} }: Content, label: string): Html[] {
  return Object.entries(content).map(
    ([type, { schema }]) =>
      html`<p><code>${type}</code></p>
        ${schema === undefined ? '' : schemaPart(schema, label)}`,
  );
}

/** A schema in full: an object as a table of its fields, anything else in a line. */
function schemaPart(schema: Schema, label: string): Html {
  if (schema.properties === undefined) return html`<p>${valueOf(schema)}</p>`;
  const { properties, required = [] } = schema;
  return html`<table>
    <caption>
      Fields of ${label}
    </caption>
    <thead>
      <tr>
        <th scope="col">field</th>
        <th scope="col">value</th>
      </tr>
    </thead>
    <tbody>
      ${Object.entries(properties).map(
        ([name, field]) =>
          html`<tr>
            <th scope="row">
              <code>${name}</code>${required.includes(name) ? '' : html` <i>optional</i>`}
            </th>
            <td>${valueOf(field)}</td>
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** What a value may be, in a line. */
function valueOf(schema: Schema): Html {
  const about = [
    ...boundsOf(schema),
    ...(schema.default === undefined ? [] : [`unless given ${JSON.stringify(schema.default)}`]),
    ...(schema.description === undefined ? [] : [schema.description]),
  ].join('; ');
  return html`${kindOf(schema)}${about === '' ? '' : html` <small>${about}</small>`}`;
}

function kindOf(schema: Schema): Html {
  const { $ref, items, properties, additionalProperties, required = [] } = schema;
  if ($ref !== undefined) {
    const name = $ref.slice($ref.lastIndexOf('/') + 1);
    return html`<a href="#shape-${name}">${name}</a>`;
  }
  const choices = schema.oneOf ?? schema.anyOf;
  if (choices !== undefined) return joined(choices.map(valueOf), ' or ');
  if (schema.enum !== undefined) {
    return joined(
      schema.enum.map((value) => html`<code>${JSON.stringify(value)}</code>`),
      ' or ',
    );
  }
  if (items !== undefined) return html`a list of ${valueOf(items)}`;
  if (properties !== undefined) {
    const fields = Object.entries(properties).map(
      ([name, field]) =>
        html`<code>${name}</code>${required.includes(name) ? '' : html` <i>optional</i>`}:
          ${valueOf(field)}`,
    );
    return html`{ ${joined(fields, ', ')} }`;
  }
  if (typeof additionalProperties === 'object') {
    return html`a map of names to ${valueOf(additionalProperties)}`;
  }
  return html`${schema.type ?? 'anything'}`;
}

function boundsOf(schema: Schema): string[] {
  const { format, pattern, minimum, maximum, minLength, maxLength, maxItems } = schema;
  const bounds: string[] = [];
  const range = (least: number | undefined, most: number | undefined, unit: string) => {
    if (most !== undefined) bounds.push(`${(least ?? 0).toString()} to ${most.toString()}${unit}`);
    else if (least !== undefined) bounds.push(`${least.toString()}${unit} or more`);
  };
  range(minimum, maximum, '');
  range(minLength, maxLength, ' characters');
  range(undefined, maxItems, ' entries');
  if (format !== undefined) bounds.push(format);
  if (pattern !== undefined) bounds.push(pattern);
  return bounds;
}

function joined(parts: readonly Html[], separator: string): Html {
  return html`${parts.map((part, index) => (index === 0 ? part : html`${separator}${part}`))}`;
}

/** A path that may wrap after each slash. */
function breakable(path: string): Html {
  return html`${path.split('/').map((part, index) => (index === 0 ? part : html`/<wbr />${part}`))}`;
}

function anchorOf(method: string, path: string): string {
  return `${method}-${path}`.replace(/[^A-Za-z0-9]+/g, '-').replace(/-$/, '');
}

// Ours alone: nothing of the document goes into it.
const STYLE = raw(`
:root {
  color-scheme: light dark;
  --ink: #1b1f24; --soft: #515a64; --paper: #fff; --line: #c9d0d8; --link: #0b57a4; --code: #f0f3f6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e7ebef; --soft: #a9b3bd; --paper: #14181c; --line: #3a434c; --link: #8cc2ff; --code: #20262c;
  }
}
body {
  margin: 0 auto; max-width: 76rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif;
}
a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; background: var(--paper); padding: 0.5rem; }
nav ul { list-style: none; padding: 0; }
article { border-top: 1px solid var(--line); padding: 0.5rem 0 1rem; }
h1 small, small, i { color: var(--soft); font-weight: normal; }
h3, code, th, td { overflow-wrap: anywhere; }
code { background: var(--code); border-radius: 3px; padding: 0.1em 0.3em; }
table { border-collapse: collapse; width: 100%; }
caption { text-align: left; color: var(--soft); }
th, td {
  border-bottom: 1px solid var(--line); padding: 0.3rem 0.6rem 0.3rem 0; text-align: left; vertical-align: top;
}
tbody th { font-weight: normal; width: 14rem; }
dt { font-weight: bold; }
dd { margin: 0 0 0.5rem 1rem; }
`);
