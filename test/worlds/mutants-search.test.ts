import { describe } from 'vitest';
import { force, mutant, tellApart, type ForcedMutant } from './mutants.ts';

/** A window that holds no more than one candidate, and grows slowly. */
const narrowWindow = [
  force('search_messages', 'bigint := page + 5', 'bigint := 1'),
  force('search_messages', 'candidates_in_window * 16', 'candidates_in_window + 1'),
] as const;

/** What narrows the postings of a word, and of the words that begin so. */
const POSTINGS = [
  ['words', 'not p_prefix and', 'p.term = p_lexeme'],
  ['beginnings', 'p_prefix and', "p.term <= p_lexeme || U&'\\+10FFFF'"],
] as const;
const LISTED = '\n    and p.conversation_id <> all ((p_scope).open_ids)';
const ASKED_FOR = '\n    and (p_conversation is null or p.conversation_id = p_conversation)';
const BOUND = '\n    and ((p_scope).project_bound is null or exists (';

const OPEN: readonly ForcedMutant[] = POSTINGS.flatMap(([of, kind, range]) => [
  mutant(
    `${of} are counted although what is open is not in scope`,
    'open_occurrences',
    `(p_scope).open and ${kind}`,
    kind,
  ),
  mutant(
    `${of} of what is listed are searched twice`,
    'open_occurrences',
    `${range}${LISTED}`,
    range,
  ),
  mutant(
    `a conversation that is asked for does not narrow ${of}`,
    'open_occurrences',
    `${range}${LISTED}${ASKED_FOR}`,
    `${range}${LISTED}`,
  ),
  mutant(
    `${of} ignore the project bound`,
    'open_occurrences',
    `${range}${LISTED}${ASKED_FOR}${BOUND}`,
    `${range}${LISTED}${ASKED_FOR}${BOUND.replace('is null or', 'is null or true or')}`,
  ),
]);

const CANDIDATES: readonly ForcedMutant[] = [
  mutant(
    'the destination is searched as any other place',
    'search_candidates',
    's.floor, (p_scope).destination_id) v',
    's.floor, null) v',
  ),
  mutant(
    'a conversation that is asked for does not narrow what is listed',
    'search_candidates',
    'where p_conversation is null or s.id = p_conversation',
    '',
  ),
  mutant(
    'statistics count although what is open is not in scope',
    'search_candidates',
    'where (p_scope).open and o.org_id',
    'where o.org_id',
  ),
  mutant(
    'what is listed is counted twice',
    'search_candidates',
    'and o.conversation_id <> all ((p_scope).open_ids)',
    '',
  ),
  mutant(
    'a conversation that is asked for does not narrow the statistics',
    'search_candidates',
    'and (p_conversation is null or o.conversation_id = p_conversation)',
    '',
  ),
  mutant(
    'statistics ignore the project bound',
    'search_candidates',
    '(p_scope).project_bound is null or exists',
    'true or exists',
  ),
  mutant(
    'answers are counted among what is listed',
    'search_candidates',
    'from listed where authored',
    'from listed',
  ),
  mutant(
    'artifacts of what is listed are not found',
    'search_candidates',
    'from earshot.conversation_artifacts(p_org, s.id) a)',
    'from earshot.conversation_artifacts(p_org, s.id) a where false)',
  ),
  mutant(
    'artifacts of what is open are not found',
    'post_conversations',
    "and not c.staged and a.terms <> ''",
    'and false',
  ),
  mutant(
    'artifacts are counted among what is open',
    'post_conversations',
    'select c.id, a.seq, a.terms, false',
    'select c.id, a.seq, a.terms, true',
  ),
  mutant(
    'answers that have a term are counted',
    'search_candidates',
    'count(*) filter (where o.authored)',
    'count(*)',
  ),
  mutant(
    'answers are counted among what is open',
    'post_conversations',
    'where o.authored group by',
    'group by',
  ),
  mutant(
    'a beginning counts as often as it occurs in what is listed',
    'search_candidates',
    'case when t.prefix then',
    'case when false then',
  ),
  mutant(
    'a beginning counts as often as it occurs in what is open',
    'open_occurrences',
    'select distinct p.conversation_id, p.seq, p.length, 1::smallint, p.authored from',
    'select p.conversation_id, p.seq, p.length, p.frequency, p.authored from',
  ),
  mutant('a beginning is a word', 'open_occurrences', "p_lexeme || U&'\\+10FFFF'", 'p_lexeme'),
  mutant(
    'a cursor loses those that tie',
    'search_candidates',
    'or (s.score = p_after_score and s.seq <= p_after_seq)',
    '',
  ),
  mutant(
    'a cursor loses those that tie at a sequence',
    'search_candidates',
    's.seq <= p_after_seq',
    's.seq < p_after_seq',
  ),
  mutant(
    'a cursor lets in those that tie above it',
    'search_candidates',
    'and s.seq <= p_after_seq',
    '',
  ),
  mutant(
    'a window cuts those that tie with its last',
    'search_candidates',
    'where (s.score, s.seq) >= (',
    'where (s.score, s.seq) > (',
    ...narrowWindow,
  ),
];

const QUERIES: readonly ForcedMutant[] = [
  mutant('what is excluded is asked for', 'parse_search', 'if part.excluded then', 'if false then'),
  mutant(
    'what is excluded is required',
    'parse_search',
    'coalesce(result.required && !!piece, !!piece)',
    'coalesce(result.required && piece, piece)',
  ),
  mutant(
    'the last exclusion alone counts',
    'parse_search',
    'coalesce(result.required && !!piece, !!piece)',
    '!!piece',
  ),
  mutant(
    'a phrase is not required',
    'parse_search',
    'coalesce(result.required && piece, piece)',
    'result.required',
  ),
  mutant(
    'the last phrase alone is required',
    'parse_search',
    'coalesce(result.required && piece, piece)',
    'piece',
  ),
  mutant(
    'a phrase does not rank',
    'parse_search',
    "words := words || ' ' || part.phrase",
    "words := words || ''",
  ),
  mutant('a beginning is a word', 'parse_search', "'^[^*]{2,}\\*$'", "'^$'"),
];

const HITS: readonly ForcedMutant[] = [
  mutant(
    'what the query requires is not asked for',
    'hit_message',
    '(p_filter).required is null or',
    'true or',
  ),
  mutant(
    'the author is not asked for',
    'hit_message',
    '(p_filter).author_id is null or',
    'true or',
  ),
  mutant('the kind is not asked for', 'hit_message', '(p_filter).kind is null or', 'true or'),
  mutant('nothing is too early', 'hit_message', '(p_filter).since is null or', 'true or'),
  mutant('nothing is too late', 'hit_message', '(p_filter).until is null or', 'true or'),
  mutant('the first moment is too early', 'hit_message', 'v.sent_at >=', 'v.sent_at >'),
  mutant('the last moment is not too late', 'hit_message', 'v.sent_at <', 'v.sent_at <='),
  mutant(
    'a candidate is a hit without being visible',
    'hit_message',
    'from earshot.visible_messages(p_org, p_scope) v\n  where',
    'from earshot.messages v\n  where v.org_id = p_org and',
  ),
  mutant(
    'a page is cut before it is filtered',
    'search_messages',
    'result.more or found_in_window < candidates_in_window',
    'true',
    ...narrowWindow,
  ),
  mutant(
    'a cursor loses what ties at its sequence',
    'search_messages',
    'or n.external_id > after_conversation',
    '',
  ),
  mutant(
    'a cursor comes back to where it was',
    'search_messages',
    'n.external_id > after_conversation',
    'n.external_id >= after_conversation',
  ),
  mutant('a page does not know of the next', 'search_messages', 'limit page + 1', 'limit page'),
];

/** Changes of how the work is done, not of what comes out of it. */
const NEUTRAL: readonly ForcedMutant[] = [
  mutant('a window holds one candidate', 'search_messages', 'bigint := page + 5', 'bigint := 1'),
  mutant(
    'a window holds one candidate and grows slowly',
    'search_messages',
    'bigint := page + 5',
    'bigint := 1',
    narrowWindow[1],
  ),
];

describe('each mutant of the search is told from the plain rules when', () => {
  tellApart([...OPEN, ...CANDIDATES, ...QUERIES, ...HITS], NEUTRAL);
});
