/** The language of tests. */
import { speak } from "./language";

await speak("en");
