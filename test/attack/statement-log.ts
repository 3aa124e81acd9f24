import type { Database } from '../../sql/database.ts';

/** A database that notes the text of every statement that is built on it. */
export interface LoggedDatabase extends Database {
  readonly statements: string[];
}

/** Notes what is sent through a database from here on. The statements themselves go their usual way. */
export function logStatements(database: Database): LoggedDatabase {
  const statements: string[] = [];
  const sql = new Proxy(database.sql, {
    apply(target, _this, args: [TemplateStringsArray]) {
      statements.push(args[0].join('?'));
      return Reflect.apply(target, undefined, args) as unknown;
    },
    get(target, name): unknown {
      // A transaction or a text of its own is one more, whatever it holds.
      if (['begin', 'reserve', 'unsafe'].includes(String(name))) statements.push(String(name));
      return Reflect.get(target, name);
    },
  });
  return { sql, close: database.close, statements };
}
