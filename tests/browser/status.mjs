// Opens one page in the Chromium of this machine and prints, as JSON, what a person would see of it
// and what a browser would complain about.
//
//   node status.mjs URL [--width=1280] [--height=800] [--scheme=light|dark] [--script=on|off]
//                       [--press=BUTTON] [--watch=SECONDS] [--screenshot=FILE]
//
// `--press` presses the button of that name first, and looks at the page that comes then.
// `--watch` waits at most so long for the visible text, and the countdowns in it, to change by themselves.
// `parts` holds the text of each element with a data-testid, `countdowns` that of each countdown,
// before and after the change.
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    width: { type: 'string', default: '1280' },
    height: { type: 'string', default: '800' },
    scheme: { type: 'string', default: 'light' },
    script: { type: 'string', default: 'on' },
    press: { type: 'string' },
    watch: { type: 'string', default: '0' },
    screenshot: { type: 'string' },
  },
});
const [url] = positionals;

// A page that renews itself may go away while it is looked at: then the next one is looked at.
const steadily = async (look) => {
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (!/context was destroyed|because of a navigation/.test(error.message)) throw error;
    }
  }
};

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  // Root, as in a container, cannot have the sandbox; the only page opened is our own.
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
});
try {
  const context = await browser.newContext({
    viewport: { width: Number(values.width), height: Number(values.height) },
    colorScheme: values.scheme,
    javaScriptEnabled: values.script === 'on',
  });
  const page = await context.newPage();
  const complaints = [];
  const requests = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('requestfailed', (request) => {
    const { errorText } = request.failure();
    // The browser's own doing, when one page gives way to the next.
    if (errorText !== 'net::ERR_ABORTED') complaints.push(`${request.url()}: ${errorText}`);
  });
  page.on('request', (request) => requests.push(request.url()));

  const countdowns = () => steadily(() => page.locator('[data-not-before]').allInnerTexts());
  const visible = () => steadily(() => page.locator('body').innerText());
  let answer = await page.goto(url, { waitUntil: 'load' });
  if (values.press) {
    // Not the page that comes because it renews itself: the one to which the form's answer leads.
    const next = page.waitForResponse((response) => response.request().redirectedFrom()?.method() === 'POST');
    await page.getByRole('button', { name: values.press, exact: true }).click();
    answer = await next;
    await page.waitForLoadState('load');
  }
  const text = await visible();
  const before = await countdowns();
  let later = text;
  const deadline = Date.now() + Number(values.watch) * 1000;
  let after = before;
  const isStill = () => later === text || (before.length > 0 && String(after) === String(before));
  while (isStill() && Date.now() < deadline) {
    await page.waitForTimeout(100);
    later = await visible();
    after = await countdowns();
  }
  const look = () => ({
    title: document.title,
    language: document.documentElement.lang,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    background: getComputedStyle(document.body).backgroundColor,
    parts: Object.fromEntries(
      [...document.querySelectorAll('[data-testid]')].map((node) => [node.dataset.testid, node.innerText]),
    ),
    links: [...document.querySelectorAll('a[href]')].map((link) => link.getAttribute('href')),
  });
  const seen = await steadily(() => page.evaluate(look));
  if (values.screenshot) await page.screenshot({ path: values.screenshot, fullPage: true });
  const shown = { text, later, countdowns: { before, after }, ...seen };
  process.stdout.write(JSON.stringify({ status: answer.status(), complaints, requests, ...shown }));
} finally {
  await browser.close();
}
