// Without this script the buttons post their form and the page is loaded anew. With it the
// button says that it is at work, and only the outcome is replaced.
'use strict';

document.addEventListener('submit', async (event) => {
  const form = event.target;
  event.preventDefault();
  const locking = form.elements.locking.value;
  const button = form.querySelector('button');
  const label = button.textContent;
  button.textContent = 'Twenty requests are under way…';
  button.disabled = true;

  try {
    const answer = await fetch(form.action, { method: 'POST', body: new URLSearchParams(new FormData(form)) });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    for (const part of ['.facts', `#${locking}`]) {
      document.querySelector(part).replaceWith(document.adoptNode(page.querySelector(part)));
    }
    document.querySelector(`#${locking} button`).focus();
  } catch (error) {
    button.textContent = `${label} again (${error.message})`;
    button.disabled = false;
  }
});
