// Puts the text of a chosen checkpoint file into the form. Without it, people paste the text.
"use strict";
const choice = document.getElementById("checkpoint-file");
const field = document.getElementById("checkpoint");
if (choice && field) {
  choice.closest("p").hidden = false;
  choice.addEventListener("change", async () => {
    const file = choice.files[0];
    if (file) {
      field.value = (await file.text()).slice(0, 4096);
      field.focus();
    }
  });
}
