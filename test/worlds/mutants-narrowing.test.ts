import { describe } from 'vitest';
import { force, mutant, tellApart, type ForcedMutant } from './mutants.ts';

/** Small worlds are narrowed by one statement of probes, from the first reader there is. */
const scans = force(
  'intersection',
  'survivors_to_probe constant integer := 12',
  'survivors_to_probe constant integer := 0',
);
const fewScans = force(
  'intersection',
  'scanned_per_probe constant integer := 6',
  'scanned_per_probe constant integer := 1',
);
const oneScan = force('intersection', 'batch integer := 3', 'batch integer := 1');
const oneProbe = force('intersection', 'probes integer := 128', 'probes integer := 1');
const everyScan = force(
  'intersection',
  'many constant integer := 2048',
  'many constant integer := 0',
);
const hardlyAny = force('intersection', 'few constant integer := 512', 'few constant integer := 1');

const NARROW: readonly ForcedMutant[] = [
  mutant('the lowest floor of the readers counts', 'narrow', 'max(f.floor)', 'min(f.floor)'),
  mutant(
    'a later batch of readers lowers a floor',
    'narrow',
    'greatest(s.floor, max(f.floor))',
    'max(f.floor)',
  ),
  mutant(
    'one reader may lack a route',
    'narrow',
    '= cardinality(p_readers)',
    '>= cardinality(p_readers) - 1',
  ),
  mutant(
    'an expired membership counts',
    'narrow',
    'and (m.expires_at is null or m.expires_at > p_now)',
    '',
  ),
  mutant(
    'a membership counts at the moment it expires',
    'narrow',
    'm.expires_at > p_now',
    'm.expires_at >= p_now',
  ),
  mutant(
    'a membership is not looked for behind another route',
    'narrow',
    'o.floor is distinct from 1',
    'o.floor is null',
  ),
  mutant(
    'the project bound is dropped',
    'narrow',
    'and (p_project_bound is null or c.project_id is not distinct from p_project_bound)',
    '',
  ),
  mutant('deleted conversations are read', 'narrow', 'not c.deleted and', ''),
  mutant('staged conversations are read', 'narrow', 'and not c.staged', ''),
  mutant('an inactive project gives a route', 'narrow', "and q.status = 'active'", ''),
  mutant(
    'a project gives a route to whoever is no member of it',
    'narrow',
    'and pm.user_id = r.key and',
    'and',
  ),
];

const BY_MEMBERSHIP: readonly ForcedMutant[] = (
  [
    ['narrow_by_probes', []],
    ['narrow_by_scans', [scans]],
  ] as const
).flatMap(([routine, forced]) => [
  mutant(
    'the lowest floor of the readers counts',
    routine,
    'max(m.floor)',
    'min(m.floor)',
    ...forced,
  ),
  mutant(
    'a later batch of readers lowers a floor',
    routine,
    'greatest(s.floor, max(m.floor))',
    'max(m.floor)',
    ...forced,
  ),
  mutant(
    'only the first reader has a floor',
    routine,
    'greatest(s.floor, max(m.floor))',
    's.floor',
    ...forced,
  ),
  mutant(
    'one reader may lack a route',
    routine,
    '= cardinality(p_users)',
    '>= cardinality(p_users) - 1',
    ...forced,
  ),
  mutant(
    'an expired membership counts',
    routine,
    'and (m.expires_at is null or m.expires_at > p_now)',
    '',
    ...forced,
  ),
  mutant(
    'a membership counts at the moment it expires',
    routine,
    'm.expires_at > p_now',
    'm.expires_at >= p_now',
    ...forced,
  ),
]);

const BY_ONE_SCAN: readonly ForcedMutant[] = (
  [
    [
      'the lowest floor of the readers counts',
      'greatest(s.floor, m.floor)',
      'least(s.floor, m.floor)',
    ],
    ['a later reader lowers a floor', 'greatest(s.floor, m.floor)', 'm.floor'],
    ['only the first reader has a floor', 'greatest(s.floor, m.floor)', 's.floor'],
    ['a reader may lack a route', 'join (select unnest', 'right join (select unnest'],
    ['an expired membership counts', 'and (m.expires_at is null or m.expires_at > p_now)', ''],
    [
      'a membership counts at the moment it expires',
      'm.expires_at > p_now',
      'm.expires_at >= p_now',
    ],
  ] as const
).map(([title, from, to]) => mutant(title, 'narrow_by_scan', from, to, everyScan));

const CANDIDATES: readonly ForcedMutant[] = [
  mutant(
    'an expired membership counts',
    'candidates',
    'and (m.expires_at is null or m.expires_at > p_now)',
    '',
  ),
  mutant(
    'a membership counts at the moment it expires',
    'candidates',
    'm.expires_at > p_now',
    'm.expires_at >= p_now',
  ),
  mutant(
    'a membership below the default floor is lost',
    'candidates',
    'and o.floor >= c.default_floor',
    '',
  ),
  mutant('guests lose what is open to the organization', 'candidates', 'not (p_open and', 'not ('),
  mutant(
    'what is open to a project alone is taken for open',
    'candidates',
    "and c.visibility = 'organization' and",
    'and',
  ),
  mutant(
    'a person loses what a project opens',
    'candidates',
    'and pm.user_id = p_reader.key',
    'and false',
  ),
  mutant(
    'a class loses what its project opens',
    'candidates',
    'and c.project_id = p_reader.key',
    'and false',
  ),
  mutant(
    'the list of a reader is cut',
    'candidates',
    '> p_most then',
    '> p_most + 1 then',
    hardlyAny,
  ),
];

const INTERSECTION: readonly ForcedMutant[] = [
  mutant('what is open stands in for guests too', 'intersection', 'not bool_or(r.guest)', 'true'),
  mutant(
    'a class comes before a guest',
    'intersection',
    'order by x.guest desc, ',
    'order by x.guest, ',
  ),
  mutant(
    'a guest does not come first',
    'intersection',
    'if somebody_else or not result.open',
    'if somebody_else',
  ),
  mutant(
    'a class reads what a guest is a member of',
    'intersection',
    'if somebody_else then\n',
    'if false then\n',
  ),
  mutant(
    'a reader is forgotten',
    'intersection',
    'users := array_remove(users, (p_readers[first]).key)',
    'users := (array_remove(users, (p_readers[first]).key))[2:]',
  ),
  mutant(
    'a reader after a scan is forgotten',
    'intersection',
    'users := users[2:]',
    'users := users[3:]',
    everyScan,
  ),
  mutant(
    'those behind a batch of probes are forgotten',
    'intersection',
    'users := users[batch + 1:];',
    "users := '{}';",
    oneProbe,
  ),
  mutant(
    'those behind a batch of scans are forgotten',
    'intersection',
    '|| users[batch + 1:]',
    '',
    scans,
    oneScan,
  ),
  mutant(
    'those who are not worth a scan are forgotten',
    'intersection',
    'array(select u from unnest(users[1:batch]) u where u <> all (chosen)) ||',
    '',
    scans,
    fewScans,
  ),
  mutant(
    'survivors that were deleted are read',
    'intersection',
    '(c.deleted or c.staged)',
    'c.staged',
  ),
  mutant(
    'survivors that are staged are read',
    'intersection',
    '(c.deleted or c.staged)',
    'c.deleted',
  ),
  mutant(
    'survivors ignore the project bound',
    'intersection',
    'and (p_project_bound is null or exists (select from conversations c\n        where c.org_id = p_org and c.id = s.id and c.project_id = p_project_bound))',
    '',
  ),
  mutant(
    'the one who brings the candidates has no floor',
    'intersection',
    '|| p_readers[first + 1:] || p_readers[first]',
    '|| p_readers[first + 1:]',
  ),
  mutant(
    'a reader between two batches is forgotten',
    'intersection',
    'ordered := ordered[batch + 1:]',
    'ordered := ordered[batch + 2:]',
    force('intersection', 'batch := greatest(2, 64 / cardinality(others));', 'batch := 1;'),
  ),
  mutant(
    'what is open is listed as if it were not',
    'intersection',
    "where c.visibility = 'organization')",
    'where false)',
  ),
  mutant(
    'the bound does not go with the scope',
    'intersection',
    'result.project_bound := p_project_bound',
    'result.project_bound := null',
  ),
];

const IN_SCOPE: readonly ForcedMutant[] = [
  mutant('what is open is listed twice', 'in_scope', 'and c.id <> all ((p_scope).open_ids)', ''),
  mutant(
    'what is open ignores the project bound',
    'in_scope',
    'and ((p_scope).project_bound is null or c.project_id = (p_scope).project_bound)',
    '',
  ),
  mutant('what is open is read while it is staged', 'in_scope', 'and not c.staged', ''),
  mutant('what is open is read after its deletion', 'in_scope', 'and not c.deleted and', 'and'),
  mutant('everybody reads what is open', 'in_scope', '(p_scope).open and', ''),
  mutant(
    'what is open is read from its beginning',
    'in_scope',
    'c.default_floor::bigint',
    '1::bigint',
  ),
];

/** Changes of how the work is done, not of what comes out of it. */
const NEUTRAL: readonly ForcedMutant[] = [
  neutral('one survivor is worth a scan', scans),
  neutral('hardly anybody is worth a scan', fewScans, scans),
  neutral(
    'nobody is worth a scan',
    { ...fewScans, to: 'scanned_per_probe constant integer := 0' },
    scans,
  ),
  neutral('readers are scanned one at a time', oneScan, scans),
  neutral('readers are probed one at a time', oneProbe),
  neutral('readers are probed one at a time for ever', { ...oneProbe, to: 'probes integer := 0' }),
  neutral('one survivor is many', everyScan),
  neutral('a reader with one conversation has many', hardlyAny),
  neutral('a reader with any conversation has many', {
    ...hardlyAny,
    to: 'few constant integer := 0',
  }),
  neutral(
    'the reader with the most comes first',
    force('intersection', 'order by c.reach, r.place', 'order by c.reach desc, r.place desc'),
    hardlyAny,
  ),
  neutral(
    'readers of other routes are asked one at a time',
    force('intersection', 'batch := greatest(2, 64 / cardinality(others));', 'batch := 1;'),
    force('intersection', '(batch * 4, 1024);\n    end loop', '(batch, 1024);\n    end loop'),
  ),
  neutral(
    'open conversations are candidates as well',
    force(
      'candidates',
      "where not (p_open and c.visibility = 'organization' and o.floor >= c.default_floor)",
      '',
    ),
  ),
];

function neutral(
  title: string,
  { routine, from, to }: Pick<ForcedMutant, 'routine' | 'from' | 'to'>,
  ...forced: ForcedMutant['forced']
): ForcedMutant {
  return mutant(title, routine, from, to, ...forced);
}

describe('each mutant of the narrowing is told from the plain rules when', () => {
  tellApart(
    [...NARROW, ...BY_MEMBERSHIP, ...BY_ONE_SCAN, ...CANDIDATES, ...INTERSECTION, ...IN_SCOPE],
    NEUTRAL,
  );
});
