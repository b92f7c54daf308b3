// Ages as kubectl prints them.

/** 45s, 3m, 5h, 2d, 1y */
export function age(from, now = Date.now()) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(from)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10 && seconds % 60) return `${minutes}m${seconds % 60}s`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8 && minutes % 60) return `${hours}h${minutes % 60}m`;
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 8 && hours % 24) return `${days}d${hours % 24}h`;
  if (days < 730) return `${days}d`;
  return `${Math.floor(days / 365)}y`;
}

/** A moment in the words of the reader's language. */
export const moment = (text) => new Date(text).toLocaleString();
