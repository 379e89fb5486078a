// Times are stored and sent in UTC; this shows them in the reader's zone. Pages work without it.
"use strict";
const shown = {
  year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
  timeZoneName: "short",
};
for (const time of document.querySelectorAll("time[datetime]")) {
  const date = new Date(time.dateTime);
  if (!Number.isNaN(date.valueOf())) {
    time.title = time.textContent;
    time.textContent = date.toLocaleString(undefined, shown);
  }
}
