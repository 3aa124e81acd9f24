import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  ALL,
  ANN,
  BEN,
  FROM_JOIN,
  historyOf,
  importFrom,
  joined,
  messagesOf,
  said,
  skipped,
  smallExport,
} from '../support/slack-export.ts';

describe('quotes', () => {
  const bodyOf = async (message: object) => {
    const { facts, report } = await importFrom(smallExport([message]), ALL);
    return { message: messagesOf(facts)[0], report };
  };

  it('are references however an export marks them', async () => {
    const reference = [{ conversation: 'G0SECRET01', message: '1614600060.000300' }];
    const where = { channel_id: 'G0SECRET01', ts: '1614600060.000300' };
    const link = 'https://x.slack.com/archives/G0SECRET01/p1614600060000300';
    const quotes = [
      { ...where, is_msg_unfurl: true },
      { ...where, is_share: true },
      { ...where, message_blocks: [{ message: { blocks: [] } }] },
      { ...where },
      { from_url: link },
      { from_url: `${link}?thread_ts=1614600000.000100&cid=G0SECRET01` },
      { original_url: link.replace('x.slack.com', 'X.Enterprise.Slack.com') },
      { title_link: link, bot_id: 'B0SOME0001' },
    ];
    for (const quote of quotes) {
      const words = { text: 'CANARY', title: 'CANARY', fallback: 'CANARY', author_name: 'CANARY' };
      const attachment = { ...quote, ...words, pretext: 'CANARY', footer: 'CANARY' };
      for (const more of [{}, { subtype: 'bot_message', username: 'app', bot_id: 'B0APP00001' }]) {
        const { message } = await bodyOf(
          said('1.0', 'look', { ...more, attachments: [attachment] }),
        );
        expect(message).toMatchObject({ body: 'look\n[message]', embeds: reference });
      }
    }
  });

  it('that name no message leave nothing, and are reported', async () => {
    for (const quote of [
      { is_msg_unfurl: true },
      { is_share: true },
      { is_reply_unfurl: true },
      { is_thread_root_unfurl: true },
      { message_blocks: [{ message: {} }] },
      { footer: 'Posted in secret-plan' },
      { fallback: '[October 13th, 2015 9:56 AM] ann: CANARY' },
    ]) {
      const attachments = [{ ...quote, text: 'CANARY' }];
      const { message, report } = await bodyOf(
        said('1.0', 'look', { subtype: 'bot_message', attachments }),
      );
      expect(message).toMatchObject({ body: 'look' });
      expect(message?.embeds).toBeUndefined();
      expect(skipped(report, 'quote', 'names no message')?.count).toBe(1);
    }
  });

  it('are found behind every kind of link to a message', async () => {
    for (const link of [
      '<https://x.slack.com/archives/C0TWO00001/p1614600060000300>',
      '<https://x.slack.com/archives/C0TWO00001/p1614600060000300|CANARY>',
      '<https://other.example|https://x.slack.com/archives/C0TWO00001/p1614600060000300>',
      '<https://app.slack.com/client/T0HOME0001/C0TWO00001/p1614600060000300>',
      '<https://app.slack.com/client/T0HOME0001/C0TWO00001/thread/C0TWO00001-1614600060.000300>',
      '<https://slack.com/app_redirect?channel=C0TWO00001&amp;message_ts=1614600060.000300>',
      '<slack://channel?team=T0HOME0001&amp;id=C0TWO00001&amp;message=1614600060.000300>',
      '_https://x.slack-gov.com/archives/C0TWO00001/p1614600060000300?cid=C0TWO00001_',
    ]) {
      const { message } = await bodyOf(said('1.0', `see ${link}`));
      expect(message?.embeds).toEqual([
        { conversation: 'C0TWO00001', message: '1614600060.000300' },
      ]);
      expect(message?.body).toMatch(/^see .*\[message\]/);
      expect(message?.body).not.toMatch(/CANARY|C0TWO|p1614/);
    }
  });

  it('are not seen in links that only look alike', async () => {
    for (const link of [
      'https://slack.com.example.org/archives/C0TWO00001/p1614600060000300',
      'https://notslack.com/archives/C0TWO00001/p1614600060000300',
      'https://x.slack.com/archives/C0TWO00001',
    ]) {
      const { message } = await bodyOf(said('1.0', `<${link}>`));
      expect(message).toMatchObject({ body: link });
      expect(message?.embeds).toBeUndefined();
    }
  });

  it('never leave a word in a body, whatever else the attachment holds', async () => {
    const words = fc.constantFrom('CANARY', '<https://a.example|CANARY>', 'a CANARY &amp; more');
    const marks = fc.record(
      { is_msg_unfurl: fc.boolean(), is_share: fc.boolean(), ts: fc.constant('1614600060.000300') },
      { requiredKeys: ['ts'] },
    );
    const parts = fc.record(
      { text: words, title: words, pretext: words, fallback: words, author_name: words },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(marks, parts, fc.boolean(), async (mark, part, isBot) => {
        const attachments = [{ channel_id: 'G0SECRET01', ...mark, ...part }];
        const more = isBot ? { subtype: 'bot_message', bot_id: 'B0APP00001' } : {};
        const { message } = await bodyOf(said('1.0', 'look', { ...more, attachments }));
        expect(message?.body).toBe('look\n[message]');
      }),
    );
  });

  it('are found in the titles and previews of files too', async () => {
    const link = 'https://x.slack.com/archives/C0TWO00001/p1614600060000300';
    const preview = `from ${link} at https://a.example?t=xoxe-1`;
    const { message } = await bodyOf(
      said('1.0', '', { files: [{ id: 'F1', mode: 'snippet', title: `about ${link}`, preview }] }),
    );
    expect(message).toMatchObject({
      body: 'about [message]\nfrom [message] at https://a.example',
      embeds: [{ conversation: 'C0TWO00001', message: '1614600060.000300' }],
    });
  });

  it('of a page on the web stay out of what a person said', async () => {
    const attachments = [{ from_url: 'https://a.example', title: 'A page', text: 'its words' }];
    const { message } = await bodyOf(said('1.0', '<https://a.example>', { attachments }));
    expect(message).toMatchObject({ body: 'https://a.example' });
  });
});

describe('texts', () => {
  const bodyOf = async (text: string, more: object = {}) => {
    const { facts } = await importFrom(smallExport([said('1.0', text, more)]), ALL);
    return messagesOf(facts)[0]?.body;
  };

  it('lose every token of an address and keep the rest of it', async () => {
    const file = 'https://files.slack.com/files-pri/T0-F0/a.png';
    expect(await bodyOf(`<${file}?t=xoxe-1-2>`)).toBe(file);
    expect(await bodyOf(`<${file}?t=xoxe-1&amp;token=xoxe-2&amp;v=3>`)).toBe(`${file}?v=3`);
    expect(await bodyOf(`<${file}?v=3&amp;token=XOXE-1#top|a>`)).toBe(`a (${file}?v=3#top)`);
    expect(await bodyOf(`${file}?pub_secret=abc and ${file}#t=xoxp-9`)).toBe(`${file} and ${file}`);
    expect(await bodyOf('is it? t=1')).toBe('is it? t=1');
  });

  it('are unescaped once', async () => {
    expect(await bodyOf('&amp;lt;b&amp;gt; &lt;i&gt; &amp;amp;')).toBe('&lt;b&gt; <i> &amp;');
  });

  it('name groups, dates and broadcasts', async () => {
    expect(await bodyOf('<!subteam^S0TEAM0001|@crew> <!subteam^S0TEAM0001> <!channel>')).toBe(
      '@crew @S0TEAM0001 @channel',
    );
    expect(await bodyOf('<!date^1392734382^{date}|Feb 18, 2014>')).toBe('Feb 18, 2014');
  });

  it('of a post are its words, without Slack’s HTML', async () => {
    const preview = '<document><h1>Plan</h1><p>we&#39;ll go &amp; see</p></document>';
    const file = { id: 'F0POST0001', mode: 'post', title: 'Plan B', preview };
    expect(await bodyOf('', { files: [file] })).toBe("Plan B\nPlan we'll go & see");
  });
});

describe('what an export says of its own messages', () => {
  it('changes and deletions apply to the message they name and are none themselves', async () => {
    const { facts, report } = await importFrom(
      smallExport([
        said('1.000000', 'old'),
        said('2.000000', 'secret'),
        said('3.000000', 'kept'),
        said('4.000000', '', {
          subtype: 'message_changed',
          hidden: true,
          message: said('1.000000', 'new', { edited: { user: ANN.id, ts: '4.000000' } }),
          previous_message: said('1.000000', 'old'),
        }),
        said('5.000000', '', { subtype: 'message_deleted', hidden: true, deleted_ts: '2.000000' }),
        said('6.000000', '', { subtype: 'message_deleted', hidden: true, deleted_ts: '2.500000' }),
        said('7.000000', '', { hidden: true }),
      ]),
      ALL,
    );
    expect(
      messagesOf(facts).map(({ id, body, editedAt, deleted }) => [id, body, editedAt, deleted]),
    ).toEqual([
      ['1.000000', 'new', 4_000_000n, undefined],
      ['2.000000', '', undefined, true],
      ['3.000000', 'kept', undefined, undefined],
      ['7.000000', '', undefined, true],
    ]);
    expect(report.counts.messages).toEqual({ live: 1, edited: 1, deleted: 2, event: 0 });
    expect(skipped(report, 'deletion', 'names no message')?.count).toBe(1);
  });

  it('a change never brings a deleted message back, and never an older text over a newer one', async () => {
    const change = (ts: string, message: object) =>
      said(ts, '', { subtype: 'message_changed', message });
    const { facts } = await importFrom(
      smallExport([
        said('1.000000', '', { subtype: 'tombstone', hidden: true }),
        change('3.000000', said('1.000000', 'back again')),
        said('2.000000', 'newest', { edited: { ts: '9.000000' } }),
        change('4.000000', said('2.000000', 'older')),
      ]),
      ALL,
    );
    expect(messagesOf(facts).map(({ body }) => body)).toEqual(['', 'newest']);
  });

  it('a bot that only a change tells of is a user like any other', async () => {
    const inner = { ts: '1.000000', text: 'hi', bot_id: 'B0HOOK0001', username: 'hook' };
    const change = said('2.000000', '', { subtype: 'message_changed', message: inner });
    const { facts } = await importFrom(smallExport([change]), ALL);
    expect(facts).toContainEqual({
      fact: 'user',
      id: 'B0HOOK0001',
      kind: 'bot',
      status: 'active',
      name: 'hook',
    });
    expect(messagesOf(facts)[0]?.author).toEqual({ user: 'B0HOOK0001' });
  });

  it('a leave after the last join makes the return unknown: no history', async () => {
    const entries = [
      joined('1.000000', BEN.id),
      { ...joined('2.000000', BEN.id, 'channel_leave') },
      joined('3.000000', ANN.id),
    ];
    const { facts, report } = await importFrom(smallExport(entries), FROM_JOIN);
    expect(historyOf(facts, 'C0ONE00001', BEN.id)).toBe('none');
    expect(historyOf(facts, 'C0ONE00001', ANN.id)).toEqual({ fromTime: 3_000_000n });
    expect(report.withoutJoin).toEqual([{ conversation: 'C0ONE00001', user: BEN.id }]);
  });

  it('a day that cannot be read hides later joins: whoever joined before it gets no history', async () => {
    const CAT = 'U0CAT00001';
    const source = smallExport([joined('1614589200.000100', BEN.id)], {
      'one/2021-03-05.json': '[{"broken',
      // 2021-03-06T11:59:59.999999Z and the microsecond after it
      'one/2021-03-06.json': [
        joined('1615031999.999999', CAT),
        joined('1615032000.000000', ANN.id),
      ],
      'channels.json': [{ id: 'C0ONE00001', name: 'one', members: [ANN.id, BEN.id, CAT] }],
    });
    const { facts, report } = await importFrom(source, FROM_JOIN);
    expect(historyOf(facts, 'C0ONE00001', BEN.id)).toBe('none');
    expect(historyOf(facts, 'C0ONE00001', ANN.id)).toEqual({ fromTime: 1615032000000000n });
    expect(historyOf(facts, 'C0ONE00001', CAT)).toBe('none');
    expect(skipped(report, 'file', 'the file is not JSON in UTF-8')?.examples).toEqual([
      'C0ONE00001/2021-03-05.json',
    ]);
  });
});
