import { startEmbedded } from '../../sql/embedded.ts';

// A process that serves the data folder it is given until its input ends, for tests to kill.
const [dataDir = ''] = process.argv.slice(2);
const server = await startEmbedded({ dataDir });
console.log(JSON.stringify({ owned: server.owned, superuserUrl: server.superuserUrl() }));
process.stdin.on('end', () => void server.stop()).resume();
