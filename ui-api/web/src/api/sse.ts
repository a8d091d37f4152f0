// Reads server-sent events from a stream. The browser's own EventSource cannot send a token, so this stands in for it.
export interface ServerEvent {
  name: string;
  data: string;
  id: string | null;
}

function parseBlock(block: string): ServerEvent | null {
  const event: ServerEvent = { name: 'message', data: '', id: null };
  const data: string[] = [];
  for (const line of block.split('\n')) {
    const colon = line.indexOf(':');
    if (colon === 0) continue; // a comment, sent to keep the connection alive
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') event.name = value;
    else if (field === 'data') data.push(value);
    else if (field === 'id') event.id = value;
  }
  if (data.length === 0) return null;
  event.data = data.join('\n');
  return event;
}

/** Calls `onEvent` for each event and `onActivity` whenever anything arrives; returns when the stream ends. */
export async function readEvents(
  stream: ReadableStream<Uint8Array>,
  onEvent: (event: ServerEvent) => void,
  onActivity: () => void,
): Promise<void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onActivity();
    rest = (rest + decoder.decode(value, { stream: true })).replace(/\r\n?/g, '\n');
    for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
      const event = parseBlock(rest.slice(0, end));
      rest = rest.slice(end + 2);
      if (event) onEvent(event);
    }
  }
}
