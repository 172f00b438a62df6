// Numbers, sizes and times as people read them. What is not known is a dash, never 0.
const DASH = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

type Maybe = number | null | undefined;

export function count(value: Maybe): string {
  return value === null || value === undefined ? DASH : whole.format(value);
}

export function short(value: Maybe): string {
  if (value === null || value === undefined) return DASH;
  const size = Math.abs(value);
  if (size >= 1e9) return trim(value / 1e9) + "G";
  if (size >= 1e6) return trim(value / 1e6) + "M";
  if (size >= 1e4) return trim(value / 1e3) + "k";
  return size < 10 && !Number.isInteger(value) ? value.toFixed(1) : whole.format(value);
}

function trim(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

export function bytes(value: Maybe): string {
  if (value === null || value === undefined) return DASH;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value.toFixed(0) : value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${UNITS[unit]}`;
}

export function rate(value: Maybe, unit = ""): string {
  return value === null || value === undefined ? DASH : `${short(value)}${unit}/s`;
}

export function seconds(value: Maybe): string {
  if (value === null || value === undefined) return DASH;
  if (value < 1) return value === 0 ? "0 s" : `${(value * 1000).toFixed(0)} ms`;
  if (value < 60) return `${value < 10 ? value.toFixed(1) : value.toFixed(0)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  if (value < 86400) return `${Math.floor(value / 3600)} h ${Math.floor((value % 3600) / 60)} min`;
  return `${Math.floor(value / 86400)} d ${Math.floor((value % 86400) / 3600)} h`;
}

export function micros(value: number): string {
  const size = Math.abs(value);
  if (size < 1000) return `${value.toFixed(0)} µs`;
  if (size < 1e6) return `${(value / 1000).toFixed(size < 1e4 ? 2 : 1)} ms`;
  return `${(value / 1e6).toFixed(2)} s`;
}

export function moment(ms: Maybe): string {
  if (ms === null || ms === undefined || ms < 0) return DASH;
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const two = (part: number, width = 2) => String(part).padStart(width, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
}

export function ago(ms: Maybe): string {
  return ms === null || ms === undefined || ms < 0 ? DASH : `${seconds(Math.max(0, (Date.now() - ms) / 1000))} ago`;
}

export function ranges(numbers: number[]): string {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === sorted[j]! + 1) j += 1;
    parts.push(i === j ? `${sorted[i]}` : `${sorted[i]}–${sorted[j]}`);
    i = j + 1;
  }
  return parts.join(", ");
}
