import type { MessageReference } from '../../../policy/fact.ts';
import { parseExternalId } from '../../../policy/identity.ts';
import { instantOfTs } from './timestamp.ts';

const HOSTS = /(?:^|\.)slack(?:-gov)?\.com$/i;

/** The message that a workspace link points at; undefined for every other link. */
export function permalinkReference(url: string): MessageReference | undefined {
  let link: URL;
  try {
    link = new URL(url);
  } catch {
    return undefined;
  }
  const parameter = (name: string) => link.searchParams.get(name) ?? '';
  if (link.protocol === 'slack:') {
    return messageReference(parameter('id'), parameter('message'));
  }
  if (!HOSTS.test(link.hostname)) return undefined;

  // /archives/C024BE91L/p1482960137003543, with ?thread_ts=…&cid=… for a reply
  const archive = /^\/+archives\/+([^/]+)\/+p(\d{7,18})\/*$/.exec(link.pathname);
  if (archive?.[1] && archive[2]) {
    return messageReference(archive[1], `${archive[2].slice(0, -6)}.${archive[2].slice(-6)}`);
  }
  // /client/T024BE7LD/C024BE91L/thread/C024BE91L-1482960137.003543
  const thread = /^\/+client\/.*\/thread\/+([^/]+)-(\d+\.\d+)\/*$/.exec(link.pathname);
  if (thread?.[1] && thread[2]) return messageReference(thread[1], thread[2]);
  // /client/T024BE7LD/C024BE91L/p1482960137003543
  const client = /^\/+client\/+[^/]+\/+([^/]+)\/+p(\d{7,18})\/*$/.exec(link.pathname);
  if (client?.[1] && client[2]) {
    return messageReference(client[1], `${client[2].slice(0, -6)}.${client[2].slice(-6)}`);
  }
  if (/^\/+app_redirect\/*$/.test(link.pathname)) {
    return messageReference(parameter('channel'), parameter('message_ts'));
  }
  return undefined;
}

/** A reference, if both ids can be ids. Whether the message exists is not asked. */
export function messageReference(channel: string, ts: string): MessageReference | undefined {
  const conversation = parseExternalId(channel);
  const message = parseExternalId(ts);
  if (!conversation.ok || !message.ok || instantOfTs(ts) === undefined) return undefined;
  return { conversation: conversation.id, message: message.id };
}

const TOKEN = /^(?:[^=]*=)?xox[a-z](?:-|%2d)|^pub_secret=/i;

/** Removes from URLs the parameters that open a file to whoever holds the link: `?t=xoxe-…` and its like. */
export function withoutTokens(text: string): string {
  return text.replace(/[?#][^\s<>|)]*/g, (query) => {
    let kept = '';
    for (const [, mark = '', parameter = ''] of query.matchAll(/([?&;#])([^?&;#]*)/g)) {
      if (TOKEN.test(parameter)) continue;
      kept += (kept === '' && mark !== '#' ? '?' : mark) + parameter;
    }
    return kept;
  });
}
