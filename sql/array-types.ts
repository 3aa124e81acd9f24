import { parse } from 'postgres-array';
import type postgres from 'postgres';
import { z } from 'zod';

/** What the driver keeps by type: its converters, and which type is the array of which. */
interface TypeRegistry {
  readonly parsers: Record<number, ((text: string) => unknown) | undefined>;
  readonly serializers: Record<number, ((value: unknown) => unknown) | undefined>;
  readonly shared: { readonly typeArrayMap: Record<number, number> };
}

const ArrayTypes = z.array(z.object({ oid: z.number(), element: z.number() }));

/**
 * Teaches a driver client the array types of the database, those of its own domains and composites included.
 *
 * The driver can do so itself, but then asks on each connection, and where that fails the process goes down with an unhandled
 * rejection; it also reads a null in an array as the text NULL.
 */
export async function loadArrayTypes(sql: postgres.Sql): Promise<void> {
  const types = ArrayTypes.parse(
    await sql`select oid::oid, typelem::oid as element from pg_type where typcategory = 'A' and typelem <> 0 and typdelim = ','`,
  );
  const { parsers, serializers, shared } = sql.options as unknown as TypeRegistry;
  for (const { oid, element } of types) {
    shared.typeArrayMap[element] = oid;
    parsers[oid] = (text) => parse(text, parsers[element] ?? String);
    serializers[oid] = (value) => arrayText(value, serializers[element] ?? String);
  }
}

function arrayText(value: unknown, elementText: (value: unknown) => unknown): string {
  if (!Array.isArray(value)) return String(value);
  const elements = value.map((element: unknown) => {
    if (Array.isArray(element)) return arrayText(element, elementText);
    if (element === null) return 'null';
    if (element === undefined)
      throw new TypeError('An array for the database has an undefined element.');
    return `"${String(elementText(element)).replace(/["\\]/g, '\\$&')}"`;
  });
  return `{${elements.join(',')}}`;
}
