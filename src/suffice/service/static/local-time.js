// Times are stored and sent in UTC; this shows them in the reader's zone, in the same form. Pages
// work without it. Days have no zone, and stay as they are.
"use strict";
const two = (number) => String(number).padStart(2, "0");
for (const time of document.querySelectorAll("time[datetime*=T]")) {
  const date = new Date(time.dateTime);
  if (!Number.isNaN(date.valueOf())) {
    const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts(date)
      .find((part) => part.type === "timeZoneName").value;
    time.title = time.textContent;
    time.textContent = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
      + ` ${two(date.getHours())}:${two(date.getMinutes())} ${zone}`;
  }
}
