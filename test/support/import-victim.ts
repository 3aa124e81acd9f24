import { importFacts } from '../../gateway/importers/import-engine.ts';
import type { Fact } from '../../policy/fact.ts';
import { externalId } from '../../policy/identity.ts';
import { openDatabase } from '../../sql/database.ts';
import { longConversation } from './long-conversation.ts';

// A process that imports a long conversation and is killed before it takes the message of the given number.
const [url = '', organization = '', last = ''] = process.argv.slice(2);

async function* untilKilled(): AsyncGenerator<Fact, undefined> {
  let messages = 0;
  for (const fact of longConversation()) {
    if (fact.fact === 'message' && ++messages > Number(last)) {
      process.kill(process.pid, 'SIGKILL');
      await new Promise(() => {});
    }
    yield fact;
  }
  return undefined;
}

await importFacts(
  {
    database: openDatabase(url, { max: 1 }),
    organization: externalId(organization),
    source: externalId('slack'),
    editsAreDated: true,
  },
  untilKilled(),
);
