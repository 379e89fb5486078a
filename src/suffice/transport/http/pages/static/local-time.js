// Times are stored and sent in UTC; this shows them in the reader's zone. Pages work without it.
"use strict";
for (const time of document.querySelectorAll("time[datetime]")) {
  const date = new Date(time.dateTime);
  if (!Number.isNaN(date.valueOf())) {
    time.title = time.textContent;
    time.textContent = date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  }
}
