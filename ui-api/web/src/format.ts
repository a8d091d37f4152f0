// Figures as people read them.
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** 10737418240 -> "10 GiB", 1610612736 -> "1.5 GiB". */
export function bytes(n: number): string {
  let unit = 0;
  let value = n;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = value >= 100 || Number.isInteger(value) ? 0 : 1;
  return `${value.toFixed(digits).replace(/\.0$/, '')} ${UNITS[unit]}`;
}

export const rate = (bytesPerSecond: number) => `${bytes(bytesPerSecond)}/s`;

export const count = (n: number) => n.toLocaleString('en');

/** 3725 -> "1 h 2 min". */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return s < 600 && s % 60 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.round(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  const days = Math.floor(s / 86400);
  return `${days} ${days === 1 ? 'day' : 'days'} ${Math.floor((s % 86400) / 3600)} h`;
}

/** Clock time for today, date and time otherwise, in the reader's zone. */
export function time(iso: string): string {
  const then = new Date(iso);
  if (Number.isNaN(then.getTime())) return iso;
  const clock = then.toLocaleTimeString('en-GB');
  return then.toDateString() === new Date().toDateString() ? clock : `${date(iso)} ${clock}`;
}

export function date(iso: string): string {
  const d = new Date(iso);
  const two = (n: number) => String(n).padStart(2, '0');
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
}

export const percent = (fraction: number) => Math.floor(Math.min(1, Math.max(0, fraction)) * 1000) / 10;
