// Opens a page in Chromium and prints its content and the browser's errors and warnings as JSON.
//
//   node status.mjs URL [--width=1280] [--height=800] [--scheme=light|dark] [--script=on|off]
//                       [--press=BUTTON] [--watch=SECONDS] [--screenshot=FILE] [--user=NAME --password=PASSWORD]
//
// Certificates are not verified: those of the tests have a CA of their own.
// `--press` first clicks the button with this name and waits for the next page.
// `--watch` waits until the visible text and its countdowns change, for at most this number of seconds.
// `parts` has the text of each element with a data-testid, `countdowns` the text of each countdown before and after
// the change.
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
    user: { type: 'string' },
    password: { type: 'string', default: '' },
  },
});
const [url] = positionals;

// The page may reload while it is read. Then it is read again.
const retry = async (read, attempts = 5) => {
  try {
    return await read();
  } catch (error) {
    if (attempts <= 1 || !/context was destroyed|because of a navigation/.test(error.message)) throw error;
    return retry(read, attempts - 1);
  }
};

const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  // The sandbox does not work as root, for example in a container. Only trusted pages are opened.
  args: ['--no-sandbox', '--disable-dev-shm-usage'],
});
try {
  const context = await browser.newContext({
    viewport: { width: Number(values.width), height: Number(values.height) },
    colorScheme: values.scheme,
    javaScriptEnabled: values.script === 'on',
    ignoreHTTPSErrors: true,
    httpCredentials: values.user ? { username: values.user, password: values.password } : undefined,
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
    // The browser aborts requests when one page replaces another.
    if (errorText !== 'net::ERR_ABORTED') complaints.push(`${request.url()}: ${errorText}`);
  });
  page.on('request', (request) => requests.push(request.url()));

  const countdowns = () => retry(() => page.locator('[data-not-before]').allInnerTexts());
  const visible = () => retry(() => page.locator('body').innerText());
  let answer = await page.goto(url, { waitUntil: 'load' });
  if (values.press) {
    // The response after the redirect of the form, not a reload of the page.
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
  const isUnchanged = () => later === text || (before.length > 0 && String(after) === String(before));
  while (isUnchanged() && Date.now() < deadline) {
    await page.waitForTimeout(100);
    later = await visible();
    after = await countdowns();
  }
  const readPage = () => ({
    title: document.title,
    language: document.documentElement.lang,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    background: getComputedStyle(document.body).backgroundColor,
    parts: Object.fromEntries(
      [...document.querySelectorAll('[data-testid]')].map((node) => [node.dataset.testid, node.innerText]),
    ),
    links: [...document.querySelectorAll('a[href]')].map((link) => link.getAttribute('href')),
  });
  const seen = await retry(() => page.evaluate(readPage));
  if (values.screenshot) await page.screenshot({ path: values.screenshot, fullPage: true });
  const shown = { text, later, countdowns: { before, after }, ...seen };
  process.stdout.write(JSON.stringify({ status: answer.status(), complaints, requests, ...shown }));
} finally {
  await browser.close();
}
